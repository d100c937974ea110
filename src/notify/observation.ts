import type { RunFailure, RunReport } from '../health/run-report.ts';

/** What something is that works or does not. A quota works until its mailbox is nearly full. */
export const SUBJECT_KINDS = ['account', 'mailbox', 'webhook', 'run', 'quota'] as const;

/** Something that works or does not: an account, a mailbox, a webhook, a kind of run; or a mailbox's quota. */
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
  for (const failure of report.failures) note(subjectOf(failure, report.kind), failureOf(failure));
  if (report.outcome === 'done') note({ kind: 'run', name: report.kind }, null);
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

function subjectOf({ account, mailbox }: RunFailure, kind: string): Subject {
  if (mailbox !== null) return { kind: 'mailbox', name: mailbox };
  return account === null ? { kind: 'run', name: kind } : { kind: 'account', name: account };
}

function failureOf({ family, code, message }: RunFailure): Failure {
  return { family, code, message };
}
