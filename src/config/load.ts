import { statSync } from 'node:fs';
import { configError } from '../errors/config.ts';
import { copyProblems } from './copy-problems.ts';
import { readConfigFile } from './file.ts';
import { crossProblems, problemsOf } from './problems.ts';
import { configSchema } from './schema.ts';
import { type Settings, settle } from './settings.ts';

/** Something that works but should be mended: a file with a token that others may read. */
export interface ConfigWarning {
  readonly code: 'secret-readable-by-others';
  readonly file: string;
  /** Octal permission bits, such as `644`. */
  readonly mode: string;
}

/**
 * Reads, checks and freezes the configuration. Reports every problem of the file at once.
 *
 * @param file absolute path
 * @throws config-unreadable, config-not-json, config-invalid
 */
export function loadConfig(file: string): { settings: Settings; warnings: ConfigWarning[] } {
  const raw = readConfigFile(file);
  const parsed = configSchema.safeParse(raw);
  const problems = [
    ...(parsed.success ? [] : problemsOf(parsed.error.issues, raw)),
    ...crossProblems(raw),
    ...copyProblems(raw),
  ];
  if (!parsed.success || problems.length > 0) {
    throw configError('config-invalid', {
      file,
      paths: problems.map((problem) => problem.path),
      found: problems.map((problem) => problem.found ?? ''),
      expected: problems.map((problem) => problem.expected),
      suggestions: problems.map((problem) => problem.suggestion ?? ''),
    });
  }
  const settings = settle(parsed.data, file);
  return { settings, warnings: secretFiles(settings).flatMap(permissionWarning) };
}

function secretFiles({ file, accounts }: Settings): string[] {
  const sources = accounts.flatMap(({ token, platform }) =>
    platform === null ? [token] : [token, platform.token],
  );
  const files = sources.flatMap((source) => (source.kind === 'file' ? source.name : []));
  return [
    ...(sources.some((source) => source.kind === 'literal') ? [file] : []),
    ...new Set(files),
  ];
}

function permissionWarning(file: string): ConfigWarning[] {
  // Windows has no permission bits that mean anything here.
  if (process.platform === 'win32') return [];
  const stat = statSync(file, { throwIfNoEntry: false });
  // What went through a pipe lies nowhere that others could read.
  if (stat === undefined || stat.isFIFO() || (stat.mode & 0o077) === 0) return [];
  const mode = (stat.mode & 0o777).toString(8).padStart(3, '0');
  return [{ code: 'secret-readable-by-others', file, mode }];
}
