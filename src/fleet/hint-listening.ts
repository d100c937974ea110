import { MailkeepError } from '../core/errors.ts';
import type { DaemonLog } from '../daemon/daemon-log.ts';
import type { DaemonClock } from '../daemon/ports.ts';
import type { Listening, ListeningPorts } from '../registry/listening.ts';
import { type FleetHint, HeardSums, readNote } from './hint-notes.ts';
import type { CountHints } from './hint-sending.ts';
import { pause } from './pause.ts';

export interface HintListeningOptions {
  /** `listen` of the registry, for this session. */
  readonly open: (ports: ListeningPorts) => Promise<Listening>;
  readonly onHint: (hint: FleetHint) => void;
  readonly clock: Pick<DaemonClock, 'after'>;
  readonly count: CountHints;
  readonly log: Pick<DaemonLog, 'say' | 'fail'>;
}

/** Between two looks whether the connection still listens, in milliseconds. */
const CHECK_MS = 30_000;
/** Before a lost connection is made again, doubled each time up to the longest. */
const AGAIN_MS = 1_000;
const LONGEST_AGAIN_MS = 60_000;

/** Hears of hints for as long as a session works. What comes while the connection is away is lost, and counted. */
export class HintListening {
  readonly #heard = new HeardSums();

  constructor(private readonly options: HintListeningOptions) {}

  /** Listens until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.options;
    let failures = 0;
    while (!signal.aborted) {
      const since = failures;
      const onListening = (): void => {
        if (since > 0) log.say('info', 'hints come again');
        failures = 0;
      };
      const error = await this.#listen(signal, onListening);
      if (signal.aborted) return;
      failures += 1;
      if (failures === 1) {
        const text = 'the connection for hints is lost: new mail waits for the schedule meanwhile';
        if (error === undefined) log.say('warn', text);
        else log.fail('error', text, error);
      }
      const ms = Math.min(LONGEST_AGAIN_MS, AGAIN_MS * 2 ** Math.min(failures - 1, 10));
      await pause(clock, ms, signal);
    }
  }

  /** Resolves once the connection is lost, with what kept it from being made. */
  async #listen(signal: AbortSignal, onListening: () => void): Promise<MailkeepError | undefined> {
    const { open } = this.options;
    const lost = new AbortController();
    let listening: Listening;
    try {
      listening = await open({
        onNote: (payload) => this.#note(payload),
        onLost: () => lost.abort(),
      });
    } catch (error) {
      if (error instanceof MailkeepError) return error;
      throw error;
    }
    onListening();
    await this.#keep(listening, AbortSignal.any([signal, lost.signal]));
    await listening.close();
    return undefined;
  }

  async #keep(listening: Listening, ended: AbortSignal): Promise<void> {
    const { clock, log } = this.options;
    for (;;) {
      await pause(clock, CHECK_MS, ended);
      if (ended.aborted) return;
      try {
        if (await listening.check()) continue;
        const text =
          'the connection for hints does not listen any more: fleet.directRegistry has to go past any pooler';
        log.say('warn', text);
      } catch {
        // Whatever it is, the connection is replaced.
      }
      return;
    }
  }

  #note(payload: string): void {
    const { onHint, count } = this.options;
    const note = readNote(payload);
    if (note === undefined) {
      count('malformed', 1);
      return;
    }
    const lost = this.#heard.lostBefore(note);
    if (lost > 0) count('lost', lost);
    count('received', note.hints.length);
    for (const hint of note.hints) onHint(hint);
  }
}
