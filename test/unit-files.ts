import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

/** Modules whose state tests need not share: a cache, the name of a process, and a switch that `OWN_PROCESS` recognises. */
const HARMLESS = new Set([
  'src/core/terminal-safe.ts',
  'src/archive/lock.ts',
  'test/archive/sample-log.ts',
]);

/** Imports that load a file: neither types nor packages. */
const LOADS =
  /^(?:import|export) (?!type )(?!\{(?:\s*type [^,}]*,?)*\s*\} from)[^;']*'(\.[^']+)'|import\(\s*'(\.[^']+)'/gm;
const STATE = /^(?:export )?let /m;
/** What replaces modules, changes the process or how all logs are written, or measures memory, which a child inherits. */
const OWN_PROCESS =
  /\bvi\.|process\.env\.\w+ =|delete process\.env|process\.(?:chdir|umask)\(|^writeByThread\(|\b(?:maxRSS|memoryUsage|resourceUsage|peak)\b/m;

interface Module {
  readonly loads: readonly string[];
  readonly hasState: boolean;
  readonly changesProcess: boolean;
}

/**
 * Returns the test files that need no process of their own, sorted: nothing that they import keeps state in a variable of a
 * module, and they do not change the process. They share processes, which saves a third of a second each.
 *
 * @param root the project's folder
 */
export function unitFiles(root: string): string[] {
  const modules = new Map<string, Module>();
  const moduleAt = (file: string): Module => {
    const known = modules.get(file);
    if (known !== undefined) return known;
    const text = readFileSync(path.join(root, file), 'utf8');
    const loads = [...text.matchAll(LOADS)].map(([, still, later]) =>
      path.join(path.dirname(file), still ?? later ?? ''),
    );
    const found = {
      loads: loads.filter((name) => /\.tsx?$/.test(name) && existsSync(path.join(root, name))),
      hasState: STATE.test(text) && !HARMLESS.has(file),
      changesProcess: file.startsWith('test/') && OWN_PROCESS.test(text),
    };
    modules.set(file, found);
    return found;
  };
  const isUnit = (test: string): boolean => {
    const reached = new Set([test]);
    for (const file of reached) {
      const { loads, hasState, changesProcess } = moduleAt(file);
      // A test file's own variables are its own.
      if (changesProcess || (hasState && file !== test)) return false;
      for (const name of loads) reached.add(name);
    }
    return true;
  };
  return readdirSync(path.join(root, 'test'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => `test/${name}`)
    .filter(isUnit)
    .sort();
}
