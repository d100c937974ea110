/** Acts at the same time, at most. */
export const AT_ONCE = 4;

/** Acts for all of them, a few at a time. @throws what the first act that failed threw, after all others */
export async function inTurns<T>(all: readonly T[], act: (one: T) => Promise<void>): Promise<void> {
  const left = [...all];
  const failures: unknown[] = [];
  const one = async (): Promise<void> => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      try {
        await act(next);
      } catch (error) {
        failures.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, left.length) }, one));
  if (failures.length > 0) throw failures[0];
}
