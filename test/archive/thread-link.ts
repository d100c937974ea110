import type { FileLayer } from '../../src/archive/file-system.ts';
import { LogThread, serveLogThread } from '../../src/archive/log-thread.ts';

/**
 * A log thread whose work is done on this thread, on any files. Messages travel as between threads: copied, later, and in
 * order.
 */
export function threadOn(files: FileLayer): LogThread {
  return new LogThread(({ message: answer }) => {
    const later = (deliver: () => void): void => void Promise.resolve().then(deliver);
    const receive = serveLogThread(files, (message) => {
      const copy = structuredClone(message);
      later(() => answer(copy));
    });
    return {
      started: true,
      ending: false,
      post: (message) => {
        const copy = structuredClone(message);
        later(() => receive(copy));
      },
      ref: () => {},
      unref: () => {},
      end: async () => receive({ letGo: true }),
    };
  });
}
