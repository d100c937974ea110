import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { BrowserContext, Page } from 'playwright-core';
import { z } from 'zod';
import { mailkeep, start } from '../../cli/child.ts';
import { packedProgram } from './packed-program.ts';

const announced = z.object({ url: z.url(), signInUrl: z.url() });
const linked = z.object({ signInUrl: z.url() });
const CLOCK = new URL('clock.mjs', import.meta.url).href;

export interface WebProgramOptions {
  /** 0, the default, for any free port. */
  readonly port?: number;
  /** The time zone of the server. */
  readonly zone?: string;
  /** When it starts; milliseconds since the epoch. Now, if it is left out. */
  readonly now?: number;
}

/** Returns the environment of a program whose clock starts at a moment. */
function atMoment(now: number | undefined): Readonly<Record<string, string>> {
  return now === undefined
    ? {}
    : { NODE_OPTIONS: `--import=${CLOCK}`, MAILKEEP_TEST_CLOCK: String(now) };
}

/** `mailkeep web` of the packed program, as a process of its own. */
export class WebProgram {
  private constructor(
    readonly data: string,
    readonly url: string,
    private readonly firstLink: string,
    private readonly env: Readonly<Record<string, string>>,
    private readonly running: ReturnType<typeof start>,
  ) {}

  static async start(data: string, options: WebProgramOptions = {}): Promise<WebProgram> {
    const { port = 0, zone = 'Europe/Berlin', now } = options;
    const env = {
      XDG_RUNTIME_DIR: mkdtempSync(path.join(tmpdir(), 'mk-run-')),
      TZ: zone,
      ...atMoment(now),
    };
    const args = ['web', '--json', '--data', data, '--listen', `127.0.0.1:${port}`];
    const running = start(args, { env, program: await packedProgram() });
    const lines = createInterface({ input: running.child.stdout });
    const line = await Promise.race([
      new Promise<string>((resolve) => lines.once('line', resolve)),
      running.ended.then(({ stderr }) => Promise.reject(new Error(stderr))),
    ]);
    const { url, signInUrl } = announced.parse(JSON.parse(line));
    return new WebProgram(data, url, signInUrl, env, running);
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  get signInUrl(): string {
    return this.firstLink;
  }

  /** Asks for another link, as a second browser needs one; for a mailbox alone, if it is given. */
  async link(mailbox?: string): Promise<string> {
    const limit = mailbox === undefined ? [] : ['--mailbox', mailbox];
    const args = ['web', '--link', '--json', '--data', this.data, ...limit];
    const { stdout, stderr } = await mailkeep(args, {
      env: this.env,
      program: await packedProgram(),
    });
    if (stdout === '') throw new Error(stderr);
    return linked.parse(JSON.parse(stdout)).signInUrl;
  }

  /** Opens a sign-in link in a page of a context, whose other pages are signed in from then on. */
  async signIn(context: BrowserContext, link = this.firstLink): Promise<Page> {
    const page = await context.newPage();
    await page.goto(link);
    await page.waitForURL((url) => url.pathname === '/mail');
    return page;
  }

  /** Ends it as a supervisor does. @returns what it wrote to standard error */
  async stop(): Promise<string> {
    this.running.child.kill('SIGTERM');
    return (await this.running.ended).stderr;
  }
}
