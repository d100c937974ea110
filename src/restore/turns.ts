/** From here on a message is large, in bytes. */
const LARGE = 8 * 1024 * 1024;

/** Returns a function that lets one large message at a time be worked on, and any number of others. */
export function takingTurns(): <T>(size: number, act: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return async (size, act) => {
    if (size < LARGE) return act();
    const turn = last.then(act, act);
    // The next one waits for this one, whatever becomes of it.
    last = turn.catch(() => {});
    return turn;
  };
}
