import { Agent } from 'undici';

/**
 * A file of its own, so that undici can be loaded late: imported by name here, it is the same in the bundle,
 * where a CommonJS package that is itself imported late has no names.
 */
export function sendingAgent(timeoutMs: number, maxHeaderSize: number): Agent {
  return new Agent({
    pipelining: 0,
    connect: { timeout: timeoutMs },
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    maxHeaderSize,
  });
}
