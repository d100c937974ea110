import path from 'node:path';
import { readRegularFile } from '../disk/regular-file.ts';
import { configError } from '../errors/config.ts';
import { errnoOf } from '../errors/mailkeep-error.ts';
import { Secret } from './secret.ts';
import type { TokenSource } from './settings.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads a token from its source, each time it is called: a request calls it when it needs the token, and
 * again after a 401, so that a token can be replaced without a restart.
 *
 * @throws token-missing, token-empty, token-unreadable, token-unusable
 */
export async function readToken(source: TokenSource, env: Environment): Promise<Secret> {
  const about = { source: source.kind, name: source.name };
  const text = (await rawToken(source, env, about)).trim();
  if (text === '') throw configError('token-empty', about);
  // RFC 9110 field values: visible ASCII; anything else would be refused, or split the header.
  if (!/^[\x21-\x7e]+$/.test(text)) throw configError('token-unusable', about);
  return new Secret(text);
}

async function rawToken(
  source: TokenSource,
  env: Environment,
  about: { source: string; name: string },
): Promise<string> {
  switch (source.kind) {
    case 'literal':
      return source.secret.reveal();
    case 'env': {
      const value = env[source.name];
      if (value === undefined) throw configError('token-missing', about);
      return value;
    }
    case 'file':
      return tokenFile(source.name, about);
    case 'credential': {
      const folder = env.CREDENTIALS_DIRECTORY ?? '';
      if (folder === '') throw configError('token-missing', about);
      return tokenFile(path.join(folder, source.name), about);
    }
  }
}

/** No token is longer; a wrong path to a large file must not be read whole. */
const LONGEST_TOKEN_FILE = 65_536;

function tokenFile(file: string, about: { source: string; name: string }): string {
  try {
    const bytes = readRegularFile(file);
    if (bytes.length > LONGEST_TOKEN_FILE) throw configError('token-unusable', about);
    return bytes.toString('utf8').replace(/^\uFEFF/, '');
  } catch (error) {
    const reason = errnoOf(error);
    if (reason === undefined) throw error;
    if (reason === 'ENOENT') throw configError('token-missing', about, error);
    throw configError('token-unreadable', { ...about, reason }, error);
  }
}
