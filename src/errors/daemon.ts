import { type ErrorFamily, MailkeepError } from './mailkeep-error.ts';

/** Codes of what goes wrong between a command and a running daemon, with the facts that fill their sentences. */
export interface DaemonFacts {
  /** The daemon ended before the pass that was asked for did. */
  readonly 'daemon-stopped': Readonly<Record<string, never>>;
  /** The daemon met a mistake of its own; its log has it. */
  readonly 'daemon-failed': Readonly<Record<string, never>>;
  /** The daemon is another version of the program. */
  readonly 'daemon-version': { readonly found: string; readonly own: string };
  /** What answers at the control socket says nothing that can be read. */
  readonly 'daemon-answer': Readonly<Record<string, never>>;
  /** What the archive names as its control socket is not the user's own. */
  readonly 'daemon-socket-foreign': { readonly file: string };
  /** The folder where the control socket would be belongs to somebody else. */
  readonly 'daemon-socket-folder': { readonly folder: string };
}

export type DaemonCode = keyof DaemonFacts;

const FAMILY: Readonly<Record<DaemonCode, ErrorFamily>> = {
  'daemon-stopped': 'interrupted',
  'daemon-failed': 'interrupted',
  'daemon-version': 'in-use',
  'daemon-answer': 'in-use',
  'daemon-socket-foreign': 'config',
  'daemon-socket-folder': 'config',
};

export function daemonError<C extends DaemonCode>(
  code: C,
  facts: DaemonFacts[C],
): MailkeepError<C, DaemonFacts[C]> {
  return new MailkeepError(FAMILY[code], code, facts);
}
