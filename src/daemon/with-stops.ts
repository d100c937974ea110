/** Registers how to stop something that was just started. */
export type OnStop = (stop: () => unknown) => void;

/**
 * Calls `act`, and when it has ended, well or not, stops everything that it started, the last first. A stop that fails
 * keeps no other from its turn.
 *
 * @throws what `act` throws, or else the first error of a stop
 */
export async function withStops<T>(act: (onStop: OnStop) => Promise<T>): Promise<T> {
  const stops: (() => unknown)[] = [];
  const errors: unknown[] = [];
  const done: T[] = [];
  try {
    done.push(await act((stop) => stops.push(stop)));
  } catch (error) {
    errors.push(error);
  }
  for (const stop of stops.reverse()) {
    try {
      await stop();
    } catch (error) {
      errors.push(error);
    }
  }
  const [result] = done;
  if (errors.length > 0 || result === undefined) throw errors[0];
  return result;
}
