import { performance } from 'node:perf_hooks';
import packageJson from '../../package.json' with { type: 'json' };
import { isPiped } from '../config/file.ts';
import type { Settings } from '../config/settings.ts';
import { openWriter, type Writer } from '../engine/archive/writer.ts';
import type { EngineContext } from '../engine/context.ts';
import { settingsOf } from '../engine/settings.ts';
import { type ExitCode, exitOf } from '../errors/exit-codes.ts';
import type { MailkeepError } from '../errors/mailkeep-error.ts';
import type { RunReport } from '../health/run-report.ts';
import { systemClock } from '../limiter/clock.ts';
import { prepareControlPlace } from './control-path.ts';
import { startControlServer } from './control-server.ts';
import { ScheduledCopies } from './copying.ts';
import { Daemon } from './daemon.ts';
import { type DaemonLog, openDaemonLog } from './daemon-log.ts';
import { type Neighbours, openNeighbours } from './neighbours.ts';
import { Passes } from './passes.ts';
import type { DaemonClock } from './ports.ts';
import { watchProcess } from './process-events.ts';
import { ScheduledPruning } from './pruning.ts';
import { noteBegun, rememberedTimetable } from './remembered-timetable.ts';
import { RunNotes } from './run-notes.ts';
import { choreReport } from './run-reports.ts';
import { ScheduledVerification } from './verification.ts';
import { type OnStop, withStops } from './with-stops.ts';

/**
 * Listens for damage that sealing finds in the log: reported once, though every round finds it again,
 * and taken back when a round meets nothing.
 */
export function watchSealing(options: {
  readonly now: () => number;
  readonly log: DaemonLog;
  readonly onRun: (report: RunReport) => void;
}): (startedAt: number, damaged: readonly MailkeepError[]) => void {
  const { now, log, onRun } = options;
  const reported = new Set<string>();
  return (startedAt, damaged) => {
    const [first] = damaged;
    if (first === undefined && reported.size === 0) return;
    if (first === undefined) reported.clear();
    for (const error of damaged) {
      const what = JSON.stringify([error.code, error.facts]);
      if (reported.has(what)) continue;
      reported.add(what);
      log.fail(
        'error',
        'a segment is damaged and stays as it is: "mailkeep verify" names what is',
        error,
      );
    }
    onRun(choreReport('seal', startedAt, now(), first ?? null));
  };
}

/** Who started us waits ten seconds. What is not over by then is cut off, which costs what a crash would: nothing. */
const STOP_MS = 8_000;

/** What the daemon runs in; `interactive`: its standard output is a terminal. */
export interface DaemonContext extends EngineContext {
  readonly interactive: boolean;
}

interface Parts {
  readonly context: DaemonContext;
  readonly writer: Writer;
  readonly clock: DaemonClock;
  readonly log: DaemonLog;
}

/**
 * `mailkeep daemon`: keeps an archive fresh until the signal. If any step of the start fails, what was started is stopped
 * at once.
 *
 * @throws archive-in-use when another daemon, or another command that writes, has the archive; cannot-listen
 */
export async function runDaemon(context: DaemonContext): Promise<ExitCode> {
  const settings = settingsOf(context);
  const clock: DaemonClock = {
    now: context.now,
    monotonic: () => performance.now(),
    after: (ms, act) => systemClock.after(ms, act),
  };
  const { code, log } = await withStops(async (onStop) => {
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
  const { env } = context.surroundings;
  const { now } = context;
  let end: (code: ExitCode) => void = () => {};
  const ended = new Promise<ExitCode>((resolve) => {
    end = resolve;
  });
  let reload: () => void = () => {};
  const watch = watchProcess({
    hangup: () => reload(),
    onTerminal: context.interactive,
    signal: context.signal,
    interrupted: (code) => end(code),
    log,
  });
  onStop(() => watch.release());
  const neighbours = await openNeighbours({ context, settings, writer, env, now, log, onStop });
  const notes = new RunNotes({ state: writer.state, now, log });
  const onRun = (report: RunReport): void => {
    notes.onRun(report);
    neighbours.onRun(report);
  };
  const passes = new Passes({
    writer,
    env,
    settings,
    clock,
    onRequest: (account, report) => {
      log.request(report);
      neighbours.onRequest(account, report);
    },
    onWait: log.wait,
    onSealed: watchSealing({ now, log, onRun }),
    onTidied: (startedAt) => notes.onTidied(startedAt),
  });
  onStop(() => passes.close());
  const die = (error: unknown): void => {
    log.fail('fatal', 'the daemon cannot go on', error);
    neighbours.failed(error);
    end(exitOf(error));
  };
  const program = [process.execPath, ...process.execArgv, process.argv[1] ?? ''];
  const child = { program, env, dataDir: writer.dataDir };
  const verification = new ScheduledVerification({ ...child, now, log, onRun });
  const copies = new ScheduledCopies({
    ...child,
    env: isPiped(settings.file) ? env : { ...env, MAILKEEP_CONFIG: settings.file },
    clock,
    state: writer.state,
    reached: () => writer.catalog.reached().number,
    log,
    onRun,
    onDropped: neighbours.onCopiesDropped,
  });
  copies.configure(settings.copies, settings.schedule.timezone);
  const pruning = new ScheduledPruning({
    context,
    writer,
    retention: () => passes.settings.retention,
    log,
    onRun,
  });
  const daemon = new Daemon({
    accounts: settings.accounts.map(({ name }) => name),
    runner: passes,
    clock,
    timetable: rememberedTimetable(settings, writer.state, clock),
    begun: (name, at) => noteBegun(writer.state, name, at),
    chores: { verify: verification.run, prune: pruning.run },
    observer: (event) => {
      log.observer(event);
      notes.onEvent(event);
      neighbours.onEvent(event);
      copies.onEvent(event);
    },
    random: Math.random,
    onFatal: die,
  });
  onStop(() => Promise.all([copies.close(), daemon.stop()]));
  const place = prepareControlPlace(writer.dataDir, env);
  const control = await startControlServer(place, daemon, packageJson.version, neighbours.link);
  onStop(() => control.close());
  if (place.pointer !== null) {
    log.say(
      'info',
      'the path of the archive is too long for a socket; control.path names the socket',
    );
  }
  reload = reloading(parts, daemon, passes, neighbours, copies);
  await neighbours.ready(daemon, () => passes.accounts());
  daemon.start();
  copies.start();
  log.say('info', 'ready', { pid: process.pid, accounts: settings.accounts.length });
  const code = await ended;
  log.say('info', 'ending');
  watch.endWithin(STOP_MS, code);
  neighbours.stopping();
  return code;
}

/** Reloads the configuration; a wrong one changes nothing. One at a time. */
function reloading(
  parts: Parts,
  daemon: Daemon,
  passes: Passes,
  neighbours: Neighbours,
  copies: ScheduledCopies,
): () => void {
  const { context, writer, log } = parts;
  let turn: Promise<void> = Promise.resolve();
  const once = async (): Promise<void> => {
    let settings: Settings;
    try {
      settings = settingsOf(context);
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
    const timetable = rememberedTimetable(settings, parts.writer.state, parts.clock);
    await daemon.reload(names, timetable, () => passes.configure(settings));
    await neighbours.configure(settings);
    copies.configure(settings.copies, settings.schedule.timezone);
    if (isPiped(settings.file)) {
      const text = 'the configuration came from a pipe: another takes effect only after a restart';
      log.say('warn', text, { accounts: names.length });
    } else log.say('info', 'configuration reloaded', { accounts: names.length });
  };
  return () => {
    turn = turn.then(once).catch((error: unknown) => {
      log.fail('error', 'the configuration could not be taken over', error);
    });
  };
}
