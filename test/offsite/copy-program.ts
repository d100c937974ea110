import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { dropOldGenerations, sealClosedSegments } from '../../src/archive/seal.ts';
import { mailkeep, start } from '../cli/child.ts';
import type { S3Server } from '../objects/servers/s3-server.ts';

/** What the program needs in its environment to reach a server, through any port. */
export function s3Environment(server: S3Server, port = server.port): Record<string, string> {
  return {
    AWS_ACCESS_KEY_ID: server.accessKeyId,
    AWS_SECRET_ACCESS_KEY: server.secretAccessKey,
    AWS_REGION: 'us-east-1',
    AWS_ENDPOINT_URL: `http://127.0.0.1:${port}`,
  };
}

/** An archive of imported mail in a folder of its own, used by the program alone. */
export class ProgramArchive {
  readonly folder = mkdtempSync(path.join(tmpdir(), 'offsite-'));
  readonly data = path.join(this.folder, 'data');
  #imports = 0;

  constructor(readonly env: Readonly<Record<string, string>> = {}) {}

  /** Runs a command about this archive that has to succeed, and returns its JSON. */
  async run(...args: readonly string[]): Promise<Record<string, unknown>> {
    const { code, stdout, stderr } = await this.ended(args);
    if (code !== 0) throw new Error(`${args.join(' ')}: ${code} ${stdout} ${stderr}`);
    return JSON.parse(stdout) as Record<string, unknown>;
  }

  /** Runs a command about this archive, however it ends. */
  ended(args: readonly string[], env = this.env) {
    return mailkeep([...args, '--data', this.data, '--json'], { env });
  }

  /** Starts a command about this archive. */
  start(args: readonly string[], env = this.env) {
    return start([...args, '--data', this.data, '--json'], { env });
  }

  /** Adds messages in commits of their own. */
  async import(sources: readonly Buffer[]): Promise<void> {
    this.#imports += 1;
    const mail = path.join(this.folder, `mail-${this.#imports}`);
    mkdirSync(mail);
    for (const [at, source] of sources.entries()) {
      writeFileSync(path.join(mail, `${at}.eml`), source);
    }
    const { code, stderr } = await mailkeep(['import', mail, '--data', this.data, '--quiet']);
    if (code !== 0) throw new Error(`import: ${code} ${stderr}`);
  }

  /** Closes the segment that is written to, and seals it, as a sync does with one that is large enough. */
  async closeSegment(): Promise<void> {
    const writer = await openLogWriter({ dir: this.data, now: Date.now });
    await writer.rollIfLarger(0);
    await sealClosedSegments({ dir: this.data, before: writer.segment });
    await dropOldGenerations({ dir: this.data, now: Date.now() + 1e9, keepMs: 0 });
    await writer.close();
  }
}

/** A message that a search for its word finds. */
export function message(number: number, word: string, attachment?: Buffer): Buffer {
  const head = [
    'From: Ruth Carter <ruth@example.org>',
    'To: ada@example.net',
    `Subject: About the ${word}`,
    `Message-ID: <${number}.${word}@example.org>`,
    'Date: Mon, 05 Jan 2026 10:00:00 +0000',
    'MIME-Version: 1.0',
  ];
  const body = `The ${word} of message ${number} is here.\r\n`;
  if (attachment === undefined) return Buffer.from([...head, '', body].join('\r\n'));
  return Buffer.from(
    [
      ...head,
      'Content-Type: multipart/mixed; boundary="next"',
      '',
      '--next',
      'Content-Type: text/plain',
      '',
      body,
      '--next',
      'Content-Type: application/octet-stream',
      `Content-Disposition: attachment; filename="${word}.bin"`,
      'Content-Transfer-Encoding: base64',
      '',
      attachment.toString('base64').replaceAll(/.{76}/g, '$&\r\n'),
      '--next--',
      '',
    ].join('\r\n'),
  );
}
