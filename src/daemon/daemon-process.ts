import { performance } from 'node:perf_hooks';
import { isatty } from 'node:tty';
import packageJson from '../../package.json' with { type: 'json' };
import { loadSettings } from '../catalog/archive-settings.ts';
import type { EngineContext } from '../catalog/open-reader.ts';
import { openWriter, type Writer } from '../catalog/open-writer.ts';
import { systemClock } from '../core/concurrency.ts';
import { isPiped } from '../core/config-file.ts';
import type { Settings } from '../core/config-schema.ts';
import {
  describeError,
  describeFacts,
  EXIT,
  type ExitCode,
  exitCodeFor,
  type MailkeepError,
} from '../core/errors.ts';
import type { StateFile } from '../core/state.ts';
import { EMPTY_COUNTS, type RunContext, type RunRecord } from '../core/state-runs.ts';
import { recordSyncRun, type SyncResult, storeRun } from '../sync/result.ts';
import type { RunReport } from '../verify/facts.ts';
import { ScheduledCopies, scheduledPruning, scheduledVerification } from './background-tasks.ts';
import { startControlServer } from './control.ts';
import { prepareControlSocket } from './control-path.ts';
import { Daemon } from './daemon.ts';
import { type DaemonLog, openDaemonLog } from './daemon-log.ts';
import { type Integrations, openIntegrations } from './integrations.ts';
import type { DaemonClock, DaemonEvent } from './ports.ts';
import { failureOf, SyncRuns, taskReport } from './runs.ts';
import { recordStart, rememberedTimetable } from './schedule.ts';

const STANDARD_OUTPUT = 1;
/** How often and how many times to check whether the terminal is gone, because it sends SIGHUP before disappearing. */
const LOOK_EVERY_MS = 500;
const LOOKS = 20;

/** @param interrupted also called if the terminal that started this process closes, which sends SIGHUP */
function watchProcess(
  { context, log }: Pick<Parts, 'context' | 'log'>,
  hangup: () => void,
  interrupted: (code: ExitCode) => void,
): () => void {
  const { interactive, signal } = context;
  const end = (): void => interrupted(EXIT.done);
  const onHangup = (): void => {
    hangup();
    if (interactive) watchTerminal(end);
  };
  const mistake = (error: unknown): void => {
    log.fail('fatal', 'internal error: this is a bug in mailkeep', error);
    process.exit(EXIT.failures);
  };
  process.on('SIGHUP', onHangup);
  process.on('unhandledRejection', mistake);
  process.on('uncaughtException', mistake);
  signal.addEventListener('abort', end, { once: true });
  // Another program of ours started this one. If that has ended, nobody else would stop this process.
  process.once('disconnect', end);
  if (process.send !== undefined && !process.connected) end();
  if (signal.aborted) end();
  return () => {
    process.off('disconnect', end);
    process.off('SIGHUP', onHangup);
    process.off('unhandledRejection', mistake);
    process.off('uncaughtException', mistake);
    signal.removeEventListener('abort', end);
  };
}

function watchTerminal(onGone: () => void): void {
  let left = LOOKS;
  const timer = setInterval(() => {
    left -= 1;
    const closed = !isatty(STANDARD_OUTPUT);
    if (closed || left === 0) clearInterval(timer);
    if (closed) onGone();
  }, LOOK_EVERY_MS);
  timer.unref();
}

/** A tidying round shorter than this has found nothing to do. */
const WORTH_NOTING_MS = 100;

/** Records the daemon's runs in the archive's state, for the web interface. */
export class RunRecorder {
  constructor(
    private readonly state: Pick<StateFile, 'runs'>,
    private readonly now: () => number,
    private readonly log: Pick<DaemonLog, 'say'>,
  ) {}

  onEvent(event: DaemonEvent): void {
    if (event.event === 'run-finished') {
      const { kind, account, startedAt } = event.run;
      this.#pass(event.result, { kind, account, startedAt, endedAt: this.now() });
    } else if (event.event === 'pass-finished' && event.kind === 'backlog') {
      // A backlog sync belongs to no run: it continues alongside them.
      const endedAt = this.now();
      const startedAt = endedAt - event.result.durationMs;
      const { account } = event.mailbox;
      this.#pass(event.result, { kind: 'backlog', account, startedAt, endedAt });
    }
  }

  onRun({ kind, startedAt, endedAt, outcome, failures, messages }: RunReport): void {
    const frame = { kind, account: null, startedAt, endedAt };
    const troubles = failures.map(({ mailbox, code, message: text }) => {
      return { mailbox, folder: null, code, text };
    });
    const { length } = failures;
    const counts = { messages: messages ?? null, failures: length };
    this.#keep({ ...frame, ...EMPTY_COUNTS, ...counts, outcome, troubles });
  }

  /** Records idle-time work: reading attachments and sealing segments. */
  onTidied(startedAt: number): void {
    const endedAt = this.now();
    if (endedAt - startedAt < WORTH_NOTING_MS) return;
    this.#keep({ kind: 'index', account: null, startedAt, endedAt, ...EMPTY_COUNTS });
  }

  #pass(result: SyncResult, frame: RunContext): void {
    this.#keep(
      recordSyncRun(result, frame, ({ code, facts }) => describeFacts(code, facts).message),
    );
  }

  #keep(run: RunRecord): void {
    storeRun(this.state, run, (error) => {
      const { code } = describeError(error);
      this.log.say('warn', 'a run could not be kept in state.sqlite', { kind: run.kind, code });
    });
  }
}

export type OnStop = (stop: () => unknown) => void;

/**
 * Runs `act`, then stops everything that it started, in reverse order, even if it failed. A failing stop does not
 * prevent the others.
 *
 * @throws the error of `act`, otherwise the first error of a stop
 */
export async function withCleanup<T>(act: (onStop: OnStop) => Promise<T>): Promise<T> {
  const stops: (() => unknown)[] = [];
  const [result] = await Promise.allSettled([act((stop) => stops.push(stop))]);
  const results: PromiseSettledResult<unknown>[] = [];
  for (const stop of stops.reverse()) {
    results.push(...(await Promise.allSettled([(async () => stop())()])));
  }
  if (result.status === 'rejected') throw result.reason;
  for (const one of results) if (one.status === 'rejected') throw one.reason;
  return result.value;
}

/** Reports damage found while sealing. Every round finds it, so it is reported only once until a round finds none. */
function watchSealing(
  now: () => number,
  log: DaemonLog,
  onRun: (report: RunReport) => void,
): (startedAt: number, damaged: readonly MailkeepError[]) => void {
  const known = new Set<string>();
  return (startedAt, damaged) => {
    const [first] = damaged;
    if (first === undefined && known.size === 0) return;
    if (first === undefined) known.clear();
    for (const error of damaged) {
      const key = JSON.stringify([error.code, error.facts]);
      if (known.has(key)) continue;
      known.add(key);
      log.fail(
        'error',
        'a segment is damaged and stays as it is: "mailkeep verify" names what is',
        error,
      );
    }
    onRun(taskReport('seal', startedAt, now(), first === undefined ? null : failureOf(first)));
  };
}

/** Service managers wait ten seconds. Work that takes longer than this is cut off without loss, as in a crash. */
const STOP_MS = 8_000;

/** `interactive`: standard output is a terminal. */
interface DaemonContext extends EngineContext {
  readonly interactive: boolean;
}

interface Parts {
  readonly context: DaemonContext;
  readonly writer: Writer;
  readonly clock: DaemonClock;
  readonly log: DaemonLog;
}

/**
 * Runs `mailkeep daemon`, which keeps an archive up to date until the signal aborts. If a startup step fails,
 * everything already started is stopped.
 *
 * @throws archive-in-use if another daemon or a writing command has it open; cannot-listen
 */
export async function runDaemon(context: DaemonContext): Promise<ExitCode> {
  const settings = loadSettings(context);
  const clock: DaemonClock = {
    now: context.now,
    monotonic: () => performance.now(),
    after: (ms, act) => systemClock.after(ms, act),
  };
  const { code, log } = await withCleanup(async (onStop) => {
    const writer = await openWriter(context, settings.dataDir, settings.archive.codec);
    onStop(() => writer.close());
    const log = await openDaemonLog(settings.log.level, context.interactive);
    return { code: await run({ context, writer, clock, log }, settings, onStop), log };
  });
  log.say('info', 'ended', { code });
  return code;
}

async function run(parts: Parts, settings: Settings, onStop: OnStop): Promise<ExitCode> {
  const { context, writer, clock, log } = parts;
  const { env } = context.environment;
  const { now } = context;
  const { promise: ended, resolve: end } = Promise.withResolvers<ExitCode>();
  let reload: () => void = () => {};
  onStop(watchProcess(parts, () => reload(), end));
  const integrations = await openIntegrations({ context, settings, writer, env, now, log, onStop });
  const recorder = new RunRecorder(writer.state, now, log);
  const onRun = (report: RunReport): void => {
    recorder.onRun(report);
    integrations.onRun(report);
  };
  const syncs = new SyncRuns({
    writer,
    env,
    settings,
    clock,
    onRequest: (account, report) => {
      log.request(report);
      integrations.onRequest(account, report);
    },
    onWait: log.wait,
    onSealed: watchSealing(now, log, onRun),
    onTidied: (startedAt) => recorder.onTidied(startedAt),
  });
  onStop(() => syncs.close());
  const die = (error: unknown): void => {
    log.fail('fatal', 'the daemon cannot go on', error);
    integrations.failed(error);
    end(exitCodeFor(error));
  };
  const program = [process.execPath, ...process.execArgv, process.argv[1] ?? ''];
  const child = { program, env, dataDir: writer.dataDir };
  const copies = new ScheduledCopies({
    ...child,
    env: isPiped(settings.file) ? env : { ...env, MAILKEEP_CONFIG: settings.file },
    clock,
    state: writer.state,
    reached: () => writer.catalog.reached().number,
    log,
    onRun,
    onDropped: integrations.onCopiesDropped,
  });
  copies.configure(settings.copies, settings.schedule.timezone);
  const retention = () => syncs.settings.retention;
  const daemon = new Daemon({
    accounts: settings.accounts.map(({ name }) => name),
    runner: syncs,
    clock,
    timetable: rememberedTimetable(settings, writer.state, clock),
    started: (name, at) => recordStart(writer.state, name, at),
    tasks: {
      verify: scheduledVerification({ ...child, now, log, onRun }),
      prune: scheduledPruning({ context, writer, retention, log, onRun }),
    },
    observer: (event) => {
      log.observer(event);
      recorder.onEvent(event);
      integrations.onEvent(event);
      copies.onEvent(event);
    },
    random: Math.random,
    onFatal: die,
  });
  onStop(() => Promise.all([copies.close(), daemon.stop()]));
  const place = prepareControlSocket(writer.dataDir, env);
  const { link, metrics } = integrations;
  const control = await startControlServer(place, daemon, packageJson.version, link, metrics);
  onStop(() => control.close());
  if (place.pointer !== null) {
    log.say(
      'info',
      'the path of the archive is too long for a socket; control.path names the socket',
    );
  }
  reload = reloading(parts, daemon, syncs, integrations, copies);
  await integrations.ready(daemon, () => syncs.accounts());
  daemon.start();
  copies.start();
  log.say('info', 'ready', { pid: process.pid, accounts: settings.accounts.length });
  const code = await ended;
  log.say('info', 'ending');
  setTimeout(() => {
    log.say('warn', 'work in progress did not finish in time and was aborted');
    process.exit(code);
  }, STOP_MS).unref();
  integrations.stopping();
  return code;
}

/** Reloads the configuration, one reload at a time. An invalid configuration is ignored. */
function reloading(
  { context, writer, clock, log }: Parts,
  daemon: Daemon,
  syncs: SyncRuns,
  integrations: Integrations,
  copies: ScheduledCopies,
): () => void {
  let turn: Promise<void> = Promise.resolve();
  const reload = async (): Promise<void> => {
    let settings: Settings;
    try {
      settings = loadSettings(context);
    } catch (error) {
      log.fail('error', 'the configuration is wrong; going on with the old one', error);
      return;
    }
    if (settings.dataDir !== writer.dataDir) {
      log.say('warn', 'another dataDir takes effect only after a restart');
    }
    if (settings.archive.codec !== writer.codec) {
      log.say('warn', 'another archive.codec takes effect only after a restart');
    }
    log.setLevel(settings.log.level);
    const names = settings.accounts.map(({ name }) => name);
    const timetable = rememberedTimetable(settings, writer.state, clock);
    await daemon.reload(names, timetable, () => syncs.configure(settings));
    await integrations.configure(settings);
    copies.configure(settings.copies, settings.schedule.timezone);
    if (isPiped(settings.file)) {
      const text = 'the configuration came from a pipe: another takes effect only after a restart';
      log.say('warn', text, { accounts: names.length });
    } else log.say('info', 'configuration reloaded', { accounts: names.length });
  };
  return () => {
    turn = turn.then(reload).catch((error: unknown) => {
      log.fail('error', 'the configuration could not be taken over', error);
    });
  };
}
