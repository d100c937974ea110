import type { RunFailure, RunReport } from '../health/run-report.ts';

/** What something is that works or does not. Of a fleet, what needs a person. A quota works until its mailbox is nearly full. */
export const SUBJECT_KINDS = [
  'account',
  'mailbox',
  'webhook',
  'run',
  'quota',
  'copy',
  'fleet',
] as const;

/** Something that works or does not: an account, a mailbox, a webhook, a kind of run, a copy; or a mailbox's quota. */
export interface Subject {
  readonly kind: (typeof SUBJECT_KINDS)[number];
  /** Name, address, id or kind of run. */
  readonly name: string;
  /** Distinguishes it from others that may have the same name, now or one day; without an id, the name does. */
  readonly id?: string | undefined;
}

/** How a subject is found not to work. */
export type Failure = Pick<RunFailure, 'family' | 'code' | 'message'>;

/** How a subject was found to be; null: it works. */
export interface Observation {
  readonly subject: Subject;
  readonly failure: Failure | null;
}

/**
 * What a run says about how things are. A run that was interrupted says nothing, and neither does one about the
 * mailboxes of an account that it could not reach.
 */
export function observationsOf(report: RunReport): Observation[] {
  if (report.outcome === 'interrupted') return [];
  const found = new Map<string, Observation>();
  const note = (subject: Subject, failure: Failure | null): void => {
    const key = subjectKey(subject);
    if (found.get(key)?.failure == null) found.set(key, { subject, failure });
  };
  for (const failure of report.failures) note(subjectOf(failure, report), failureOf(failure));
  if (report.outcome === 'done') note(runSubject(report), null);
  for (const name of report.accounts) note({ kind: 'account', name }, null);
  for (const name of report.mailboxes) note({ kind: 'mailbox', name }, null);
  return [...found.values()];
}

/** Returns true for a warning: everything works so far, and it is reported once. */
export function isWarning({ kind }: Subject): boolean {
  return kind === 'quota';
}

/** Under which a subject is remembered. */
export function subjectKey({ kind, name, id = name }: Subject): string {
  return `${kind} ${id}`;
}

/** What can be wrong with a copy: that it is not made, that reading it back fails, that it is old. */
export const COPY_TROUBLES = ['copy', 'copy-check', 'stale'] as const;

/** A copy, as far as one thing can be wrong with it. */
export function copySubject(to: string, trouble: (typeof COPY_TROUBLES)[number]): Subject {
  return { kind: 'copy', name: to, id: `${trouble} ${to}` };
}

function runSubject({ kind, copy }: RunReport): Subject {
  if (copy === undefined) return { kind: 'run', name: kind };
  return copySubject(copy, kind === 'copy-check' ? 'copy-check' : 'copy');
}

function subjectOf({ account, mailbox }: RunFailure, report: RunReport): Subject {
  if (mailbox !== null) return { kind: 'mailbox', name: mailbox };
  return account === null ? runSubject(report) : { kind: 'account', name: account };
}

function failureOf({ family, code, message }: RunFailure): Failure {
  return { family, code, message };
}
