import type { Writable } from 'node:stream';
import { jsonLine } from '../wording/amounts.ts';
import { fitNarrow } from './wrap-text.ts';

/** What went wrong, as people and programs are told. */
export interface Told {
  readonly code: string;
  readonly message: string;
  readonly hint: string | null;
  /** What the service itself said, where it is shown: as it stands in JSON, and as lines. */
  readonly answer?: { readonly json: object; readonly lines: readonly string[] };
}

/** Tells of an error on standard error: one object with `--json`, else a sentence and what to do about it. */
export function tell(
  stderr: Writable & { readonly isTTY?: boolean; readonly columns?: number },
  json: boolean,
  told: Told,
): void {
  const { code, message, hint, answer } = told;
  if (json) {
    const shown = answer === undefined ? {} : { answer: answer.json };
    stderr.write(`${jsonLine({ error: { code, message, hint, ...shown } })}\n`);
    return;
  }
  const lines = [
    `mailkeep: ${message}`,
    ...(answer?.lines ?? []),
    ...(hint === null ? [] : [hint]),
  ];
  const text = lines.join('\n');
  stderr.write(`${stderr.isTTY === true ? fitNarrow(text, stderr.columns) : text}\n`);
}
