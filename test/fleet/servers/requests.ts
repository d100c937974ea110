import type { HttpFault } from '../../objects/servers/http-faults.ts';
import type { Scene } from './scene.ts';

/** The requests of an upload, in their order. */
export const REQUESTS = {
  Create: /^POST .*\?uploads/,
  part: /^PUT .*partNumber/,
  Complete: /^POST .*uploadId/,
  GET: /^GET .*\.(?:chunk|seg)$/,
} as const;
export type Step = keyof typeof REQUESTS;
export const STEPS = Object.keys(REQUESTS) as readonly Step[];

/** Makes a fault of the next requests of a step. */
export function faultAt({ http }: Scene, step: Step, fault: HttpFault, times = 1): void {
  let left = times;
  http.faultFor = (method, path) => {
    if (!REQUESTS[step].test(`${method} ${path}`) || left === 0) return undefined;
    left -= 1;
    return fault;
  };
}

/** Does something before the next request of a step reaches the server. */
export function before({ http }: Scene, step: Step, act: () => Promise<unknown>): void {
  let isDone = false;
  http.hold = async (method, path) => {
    if (isDone || !REQUESTS[step].test(`${method} ${path}`)) return;
    isDone = true;
    await act();
  };
}

/** Returns the steps of the requests so far; those that are none by their methods. */
export function requestsOf({ http }: Scene): string[] {
  return http.seen.map(
    ({ method, path }) => STEPS.find((step) => REQUESTS[step].test(`${method} ${path}`)) ?? method,
  );
}
