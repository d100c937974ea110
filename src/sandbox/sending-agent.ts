import { Agent } from 'undici';

/** A separate file, to load undici lazily: a bundled CommonJS package that is imported lazily has no named exports. */
export function sendingAgent(timeoutMs: number, maxHeaderSize: number): Agent {
  return new Agent({
    pipelining: 0,
    connect: { timeout: timeoutMs },
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    maxHeaderSize,
  });
}
