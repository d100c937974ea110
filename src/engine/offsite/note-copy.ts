import {
  type FoundInCopy,
  rememberCopied,
  rememberCopyChecked,
  rememberMended,
} from '../../health/copies.ts';
import type { CopyChecked, KnownCopy } from '../../state/copies.ts';
import type { EngineContext } from '../context.ts';
import { noting } from '../verify/remember.ts';

/** Writes down that a copy was brought up to date, for `status` and the daemon. A state that cannot be written is a warning. */
export function noteCopied(
  context: EngineContext,
  dataDir: string,
  to: string,
  made: NonNullable<KnownCopy['made']>,
): void {
  noting(context, dataDir, 'copy', (state) => rememberCopied(state, to, made));
}

/** Writes down what a copy found damaged at its target, likewise. */
export function noteMended(
  context: EngineContext,
  dataDir: string,
  to: string,
  findings: readonly (FoundInCopy & { readonly repaired: boolean })[],
  replaced: readonly string[],
): void {
  noting(context, dataDir, 'copy', (state) =>
    rememberMended(state, to, context.now(), findings, replaced),
  );
}

/** Writes down what reading a copy back came to, likewise. */
export function noteCopyChecked(
  context: EngineContext,
  dataDir: string,
  to: string,
  checked: Omit<CopyChecked, 'fullAt' | 'found'>,
  findings: readonly FoundInCopy[],
): void {
  noting(context, dataDir, 'copy', (state) => rememberCopyChecked(state, to, checked, findings));
}
