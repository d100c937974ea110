import { chmodSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Certificate } from './certificate.ts';

/** What both servers can be asked for. */
export interface MailServerOptions {
  /** All with the same password. */
  readonly users?: readonly string[];
  readonly quota?: { readonly messages?: number; readonly bytes?: number };
  /** A larger message is refused. */
  readonly maxMessageBytes?: number;
  readonly separator?: '/' | '.';
  /** Folders of the first user in which no message can be put. */
  readonly readOnly?: readonly string[];
  /** Connections of one user at the same time. */
  readonly maxConnections?: number;
  /** Names that the certificate is valid for: 'DNS:elsewhere.example' makes a wrong one. */
  readonly certificateNames?: readonly string[];
}

/** A running mail server, with an empty mailbox for each user. */
export interface MailServer {
  readonly host: '127.0.0.1';
  /** Without TLS, unless STARTTLS is used. */
  readonly port: number;
  readonly tlsPort: number;
  /** The first user. */
  readonly user: string;
  readonly users: readonly string[];
  readonly password: string;
  /** A folder with its configuration, log and mail. */
  readonly home: string;
  readonly certificate: Certificate;
  /** Ends all its processes with SIGKILL. */
  kill(): Promise<void>;
  /** Starts it again, after `kill` or while it runs: same ports, same mail. */
  restart(): Promise<void>;
  /** Ends it, and removes its folder. */
  stop(): Promise<void>;
}

/** Accepted for every user. */
export const PASSWORD = 'correct-horse';

/** Makes a folder that other users, such as those of mail servers, can enter. */
export function serverFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'imap-'));
  chmodSync(folder, 0o755);
  return folder;
}
