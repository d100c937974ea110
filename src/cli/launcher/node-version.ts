/** Minimum version from `engines` in package.json, such as `22.15`; set by the build. */
declare const NEEDED_NODE: string;

export function isNewEnough(version: string): boolean {
  const found = version.split('.').map(Number);
  const needed = NEEDED_NODE.split('.').map(Number);
  const major = (found[0] ?? 0) - (needed[0] ?? 0);
  return major > 0 || (major === 0 && (found[1] ?? 0) >= (needed[1] ?? 0));
}

/**
 * Reports in the usual format that the program cannot run on this Node.js, and sets the exit code for usage errors.
 * Looks for `--json` in the raw arguments, because they have not been parsed.
 */
export function reportOldNode(code: string, problem: string, hint: string): void {
  const message = `mailkeep needs Node.js ${NEEDED_NODE} or newer; this is ${process.versions.node}${problem}.`;
  process.stderr.write(
    process.argv.indexOf('--json') < 0
      ? `${message}\n${hint}\n`
      : `${JSON.stringify({ error: { code: code, message: message, hint: hint } })}\n`,
  );
  process.exitCode = 2;
}
