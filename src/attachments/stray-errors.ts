import { AsyncLocalStorage } from 'node:async_hooks';

type Fail = (error: unknown) => void;

/**
 * Makes what also fails when something is thrown in a callback that nobody waits for, or a rejection that nobody
 * handles. It is the failure of what set it off; when that is over it is nobody's, and ends neither the thread nor
 * what is run by then. For a thread that does nothing else: it listens to all uncaught exceptions from now on.
 */
export function strayErrors(): <T>(run: () => Promise<T>) => Promise<T> {
  const origins = new AsyncLocalStorage<Fail>();
  let current: Fail | undefined;
  process.on('uncaughtException', (error) => {
    // Microtasks do not say where they came from, and are as good as at once.
    const fail = origins.getStore() ?? current;
    fail?.(error);
  });
  return <T>(run: () => Promise<T>) =>
    new Promise<T>((resolve, reject) => {
      current = reject;
      origins
        .run(reject, run)
        .then(resolve, reject)
        .finally(() => {
          if (current === reject) current = undefined;
        });
    });
}
