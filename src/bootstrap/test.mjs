/** `npm test`: installs and builds what is missing, then runs the tests. Arguments go to vitest. */
import { spawn } from 'node:child_process';
import path from 'node:path';
import { needBuild, needDependencies, root } from './needs.mjs';

needDependencies();
needBuild();
const vitest = spawn(
  process.execPath,
  [path.join(root, 'node_modules', 'vitest', 'vitest.mjs'), 'run', ...process.argv.slice(2)],
  { cwd: root, stdio: 'inherit' },
);
vitest.on('exit', (code, signal) => {
  process.exitCode = signal === null ? (code ?? 1) : 1;
});
