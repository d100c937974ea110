import { MailkeepError } from '../../errors/mailkeep-error.ts';
import type { WebSession } from '../../state/values.ts';
import { type SessionStore, sessionsInMemory } from './sessions.ts';

/**
 * Returns a store that works on where another cannot write, as on a full disk: what was not written is kept in memory,
 * and written with the next change that can be. A browser can still sign in, and one that was ended stays ended as long
 * as the server runs.
 */
export function lastingSessions(store: SessionStore): SessionStore {
  const unwritten = sessionsInMemory();
  const ended = new Set<string>();
  /** Returns whether it was written. */
  const write = (key: string, session: WebSession | undefined): boolean => {
    try {
      store.set(key, session);
      return true;
    } catch (error) {
      if (!(error instanceof MailkeepError)) throw error;
      return false;
    }
  };
  const catchUp = (): void => {
    for (const key of ended) if (write(key, undefined)) ended.delete(key);
    for (const { key, ...session } of unwritten.list())
      if (write(key, session)) unwritten.set(key, undefined);
  };
  return {
    get: (key) => (ended.has(key) ? undefined : (unwritten.get(key) ?? store.get(key))),
    list() {
      const waiting = unwritten.list();
      const hidden = new Set([...ended, ...waiting.map(({ key }) => key)]);
      return [...store.list().filter(({ key }) => !hidden.has(key)), ...waiting];
    },
    set(key, session) {
      const isWritten = write(key, session);
      unwritten.set(key, isWritten ? undefined : session);
      if (isWritten) {
        ended.delete(key);
        catchUp();
      } else if (session === undefined) ended.add(key);
    },
  };
}
