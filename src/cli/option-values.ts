import { InvalidArgumentError } from 'commander';
import { parseDuration } from '../config/duration.ts';

/** A parser for whole numbers within bounds, for commander. */
export function wholeNumber(from: number, to: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || !Number.isSafeInteger(value) || value < from || value > to) {
      throw new InvalidArgumentError(`It takes a whole number from ${from} to ${to}.`);
    }
    return value;
  };
}

/** Milliseconds of a DURATION. */
export function duration(text: string): number {
  const value = parseDuration(text);
  if (value === undefined) {
    throw new InvalidArgumentError('It takes a duration such as 90s, 15m, 26h or 7d.');
  }
  return value;
}

/** Collects the values of an option that may be given several times. */
export function collected(text: string, before: readonly string[] = []): string[] {
  return [...before, text];
}

/** Collects addresses (`a@example.org`) and domains (`@example.org`). */
export function recipients(text: string, before: readonly string[] = []): string[] {
  if (!/^[^\s@<>]*@[^\s@<>]+$/.test(text)) {
    throw new InvalidArgumentError(
      'It takes an address (bea@example.org) or a domain (@example.org).',
    );
  }
  return [...before, text];
}
