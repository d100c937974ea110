import { setFlagsFromString } from 'node:v8';

/**
 * Has every heap of this process grow to twice of what is in use before it is collected. V8 lets a small heap grow to
 * four times of that: a server that answers a request now and then then holds some 100 MB that nothing refers to. V8
 * reads the setting with each collection. Not for a process that fills its heap, which would be collected more often.
 */
export function holdOldGeneration(): void {
  setFlagsFromString('--heap-growing-percent=100');
}
