import { operationError } from '../../../errors/usage.ts';
import { nearest } from '../../../names/nearest.ts';
import type { Operation } from '../../../wire/operation.ts';
import { findOperation, OPERATIONS } from '../../../wire/operations.ts';

const MOST_SUGGESTIONS = 4;

/** @throws operation-unknown with the names it may have been meant for */
export function namedOperation(name: string): Operation {
  const found = findOperation(name);
  if (found === null) {
    throw operationError('operation-unknown', { operation: name, nearest: suggestions(name) });
  }
  return found;
}

/** Names that are a few typing mistakes away, then those that hold the word. */
function suggestions(name: string): string[] {
  let names = OPERATIONS.map((operation) => operation.name);
  const near: string[] = [];
  for (;;) {
    const next = nearest(name, names);
    if (next === null) break;
    near.push(next);
    names = names.filter((each) => each !== next);
  }
  const word = name.toLowerCase();
  const holding = word.length < 3 ? [] : names.filter((each) => each.toLowerCase().includes(word));
  return [...near, ...holding].slice(0, MOST_SUGGESTIONS);
}
