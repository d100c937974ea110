/** The server could not be reached: the machine sleeps, or the program has ended. */
export class Unreachable extends Error {
  override readonly name = 'Unreachable';
}

/** The browser is not signed in, or not any more. */
export class SignedOut extends Error {
  override readonly name = 'SignedOut';
}

/** The server answered, and not with what was asked for. */
export class Refused extends Error {
  override readonly name = 'Refused';

  constructor(readonly status: number) {
    super(`the server answered ${status}`);
  }
}

/**
 * Asks the server for data.
 *
 * @param address path and parameters, below `/api/`
 * @throws Unreachable, SignedOut, Refused; the reason of the signal where it ended the request
 */
export function ask<T>(address: string, signal?: AbortSignal): Promise<T> {
  return dataOf(address, { signal: signal ?? null });
}

/** Sends a form that changes something, which the server takes with this header only. */
export function post<T>(address: string, fields: Readonly<Record<string, string>>): Promise<T> {
  const headers = { 'x-mailkeep': '1' };
  const body = new URLSearchParams(fields);
  return dataOf(address, { method: 'POST', headers, body });
}

async function dataOf<T>(address: string, options: RequestInit): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(address, { ...options, credentials: 'same-origin', redirect: 'error' });
  } catch (error) {
    if (options.signal?.aborted === true) throw error;
    throw new Unreachable('the server cannot be reached', { cause: error });
  }
  if (answer.status === 401) throw new SignedOut('not signed in');
  if (!answer.ok) throw new Refused(answer.status);
  const { data }: { readonly data: T } = await answer.json();
  return data;
}
