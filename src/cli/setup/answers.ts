import { existsSync } from 'node:fs';
import path from 'node:path';
import { isLoopback, parseServiceUrl } from '../../config/address.ts';
import { DEFAULT_DATA_DIR } from '../../config/data-dir.ts';
import { Secret } from '../../config/secret.ts';
import type { TokenSource } from '../../config/settings.ts';
import { configError } from '../../errors/config.ts';
import { originError } from '../../errors/origin.ts';
import { usageError } from '../../errors/usage.ts';
import { type Asker, pipedText, terminalAsker } from '../ask.ts';
import type { CommandContext } from '../context.ts';

export interface InitOptions {
  readonly baseUrl: string | undefined;
  readonly tokenEnv: string | undefined;
  readonly tokenFile: string | undefined;
  readonly yes: boolean;
}

/** All that a configuration is made of, with nothing written yet. */
export interface Answers {
  /** Absolute path of the configuration to be. */
  readonly file: string;
  readonly baseUrl: string;
  readonly token: TokenSource;
  /** Where a token that was typed or piped will be kept; null when it stays where it is. */
  readonly newTokenFile: string | null;
  /** As it will stand in the configuration. */
  readonly dataDir: string;
}

/**
 * Takes answers from the options, asks for the rest on a terminal, and refuses elsewhere.
 *
 * @throws config-exists before anything is asked; usage-not-interactive naming all that is missing
 */
export async function collectAnswers(
  context: CommandContext,
  options: InitOptions,
): Promise<{ answers: Answers; asker: Asker | undefined }> {
  const { cwd, env } = context.surroundings;
  const named = context.globals.config ?? env.MAILKEEP_CONFIG;
  const file = path.resolve(cwd, named === undefined || named === '' ? 'config.json' : named);
  if (existsSync(file)) throw configError('config-exists', { file });
  const asker = terminalAsker(context);
  const kept = givenToken(options, cwd);
  const newTokenFile = kept === null ? path.join(path.dirname(file), 'token') : null;
  if (newTokenFile !== null && existsSync(newTokenFile)) {
    throw configError('config-exists', { file: newTokenFile });
  }
  const piped = kept === null && asker === undefined ? await pipedText(context.stdin()) : '';
  if (asker === undefined) {
    const missing = [
      ...(options.baseUrl === undefined ? ['--base-url'] : []),
      ...(kept === null && piped === ''
        ? ['a token (--token-env, --token-file, or on standard input)']
        : []),
    ];
    if (missing.length > 0) throw usageError('usage-not-interactive', { command: 'init', missing });
  }
  const typed = options.baseUrl ?? (await asker?.line('Address of the mail service')) ?? '';
  const baseUrl = serviceAddress(typed);
  const secret = piped === '' ? ((await maybeAsk(kept, asker)) ?? '') : piped;
  return {
    asker,
    answers: {
      file,
      baseUrl,
      token: kept ?? { kind: 'literal', secret: new Secret(secret), name: 'given to init' },
      newTokenFile,
      dataDir: await dataDirectory(context, file, options.yes ? undefined : asker),
    },
  };
}

function givenToken({ tokenEnv, tokenFile }: InitOptions, cwd: string): TokenSource | null {
  if (tokenEnv !== undefined && tokenFile !== undefined) {
    throw usageError('usage-invalid', {
      command: 'init',
      problem: 'only one of --token-env and --token-file can be given.',
    });
  }
  if (tokenEnv !== undefined) return { kind: 'env', name: tokenEnv };
  return tokenFile === undefined ? null : { kind: 'file', name: path.resolve(cwd, tokenFile) };
}

function serviceAddress(text: string): string {
  const url = text.trim();
  if (!URL.canParse(url)) throw originError('base-url-invalid', { url, problem: 'no-url' });
  const { protocol, hostname } = new URL(url);
  if (protocol !== 'https:' && protocol !== 'http:') {
    throw originError('base-url-invalid', { url, problem: 'scheme' });
  }
  if (parseServiceUrl(url) === undefined) {
    throw originError('base-url-invalid', { url: hostname, problem: 'extras' });
  }
  if (protocol === 'http:' && !isLoopback(hostname)) {
    throw originError('base-url-invalid', { url, problem: 'insecure' });
  }
  return url.replace(/\/+$/, '');
}

async function maybeAsk(
  kept: TokenSource | null,
  asker: Asker | undefined,
): Promise<string | undefined> {
  return kept === null ? asker?.secret('Token') : undefined;
}

/** A relative folder is written relative to the configuration, which is what it will be read as. */
async function dataDirectory(
  context: CommandContext,
  file: string,
  asker: Asker | undefined,
): Promise<string> {
  const fallback = `./${DEFAULT_DATA_DIR}`;
  const given =
    context.globals.data ??
    (await asker?.line('Folder of the archive, beside the configuration', fallback));
  if (given === undefined || given === '') return fallback;
  if (path.isAbsolute(given)) return given;
  const base = context.globals.data === undefined ? path.dirname(file) : context.surroundings.cwd;
  const relative = path.relative(path.dirname(file), path.resolve(base, given));
  return relative.startsWith('..') || path.isAbsolute(relative) ? relative : `./${relative}`;
}
