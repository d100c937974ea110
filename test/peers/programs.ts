import { accessSync, constants } from 'node:fs';
import path from 'node:path';

/** Debian keeps Dovecot where only root looks. */
export function extendPath(): void {
  process.env.PATH = `${process.env.PATH ?? ''}${path.delimiter}/usr/sbin:/sbin`;
}

/** Set by the project's own checks, which install these programs: there a comparison that is left out is a failure. */
const REQUIRED = process.env.MAILKEEP_PEERS === 'required';

/**
 * True where one of these programs of others is not installed: a test that compares with them is skipped, and it is said
 * why.
 *
 * @throws Error if MAILKEEP_PEERS=required
 */
export function absent(...programs: readonly string[]): boolean {
  const missing = programs.filter((program) => fileOf(program) === undefined);
  if (missing.length === 0) return false;
  return notCompared(`${missing.join(' and ')} cannot be found in PATH`);
}

/**
 * Warns that a comparison is left out.
 *
 * @throws Error if MAILKEEP_PEERS=required
 */
export function notCompared(why: string): true {
  const reason = `not compared: ${why}`;
  if (REQUIRED) throw new Error(reason);
  console.warn(reason);
  return true;
}

/** Returns the file of a program in PATH; undefined where there is none. */
export function fileOf(program: string): string | undefined {
  return (process.env.PATH ?? '')
    .split(path.delimiter)
    .map((folder) => path.join(folder, program))
    .find((file) => {
      try {
        accessSync(file, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}
