import type { StateFile } from '../state/state-file.ts';
import type { ObjectEntry } from './plan-copy.ts';

/** What is known of the newest manifest that was written or read here. */
export interface SeenManifest {
  readonly commit: number;
  readonly sequence: number;
  /** Milliseconds since the epoch: when it was written. */
  readonly at: number;
}

/** What is convenient to remember of a copy. Without it, what was uploaded and not yet listed is uploaded again. */
export interface CopyMemory {
  /** Objects that were uploaded, and that no manifest lists yet. */
  uploaded(): ObjectEntry[];
  note(entry: ObjectEntry): void;
  /** Forgets what was uploaded: it was encrypted for a key that is being replaced. */
  forgetUploaded(): void;
  /** A manifest was written or read; what was uploaded before is listed in it, or nowhere. */
  see(manifest: SeenManifest, listed: boolean): void;
  seen(): SeenManifest | undefined;
  /** Whether objects there hold mail that was purged here: set before they are replaced, until they are gone. */
  purging(): boolean;
  purge(isDue: boolean): void;
  /** Until when an object was locked from here, milliseconds since the epoch; undefined where nothing is known. */
  lockedUntil(name: string): number | undefined;
  noteLock(name: string, until: number): void;
  /** Forgets locks that have ended. */
  forgetLocks(now: number): void;
}

/** The memory of one copy in `state.sqlite`; undefined state remembers nothing. */
export function copyMemory(state: StateFile | undefined, copyId: string): CopyMemory {
  const uploads = () => (state?.entries('copy-upload') ?? []).filter(({ key }) => ours(key));
  // Also without a file, what a run finds out about purges and locks holds to its end.
  let isPurging = false;
  const ours = (key: string) => key.startsWith(`${copyId} `);
  const locks = new Map<string, number>();
  const forgetUploaded = () => {
    for (const { key } of uploads()) state?.set('copy-upload', key, null);
  };
  return {
    uploaded: () =>
      uploads().map(({ key, value }) => ({ name: key.slice(copyId.length + 1), ...value })),
    note: ({ name, length, sha256 }) =>
      state?.set('copy-upload', `${copyId} ${name}`, { length, sha256 }),
    forgetUploaded: () => state?.together(forgetUploaded),
    see: (manifest, listed) =>
      state?.together(() => {
        state.set('copy-seen', copyId, manifest);
        if (listed) forgetUploaded();
      }),
    seen: () => state?.get('copy-seen', copyId),
    purging: () => isPurging || state?.get('copy-purge', copyId) !== undefined,
    purge: (isDue) => {
      isPurging = isDue;
      state?.set('copy-purge', copyId, isDue ? true : null);
    },
    lockedUntil: (name) => locks.get(name) ?? state?.get('copy-lock', `${copyId} ${name}`),
    noteLock: (name, until) => {
      locks.set(name, until);
      state?.set('copy-lock', `${copyId} ${name}`, until);
    },
    forgetLocks: (now) =>
      state?.together(() => {
        for (const { key, value } of state.entries('copy-lock')) {
          if (ours(key) && value <= now) state.set('copy-lock', key, null);
        }
      }),
  };
}
