/**
 * `npm run bench`: installs and builds what is missing, then measures mailkeep against mbsync with Dovecot,
 * notmuch and mu. Arguments go to test/bench/main.ts (`npm run bench -- --help`).
 */
import { spawn } from 'node:child_process';
import path from 'node:path';
import { needBuild, needDependencies, root } from './needs.mjs';

needDependencies();
needBuild();
const bench = spawn(
  process.execPath,
  ['--import', 'tsx', path.join(root, 'test', 'bench', 'main.ts'), ...process.argv.slice(2)],
  { cwd: root, stdio: 'inherit' },
);
// Ctrl-C reaches the child as well, which stops its servers; a signal to this process alone is passed on.
process.on('SIGINT', () => {});
process.on('SIGTERM', () => bench.kill('SIGTERM'));
bench.on('exit', (code, signal) => {
  process.exitCode = signal === null ? (code ?? 1) : 1;
});
