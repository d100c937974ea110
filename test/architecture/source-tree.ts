import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

export const root = fileURLToPath(new URL('../../', import.meta.url));

export interface SourceFile {
  /** Path from the project's root, with forward slashes. */
  readonly file: string;
  readonly text: string;
  readonly lines: number;
  /** Files of the project that it imports, in any form; type imports and dynamic ones included. */
  readonly imports: readonly string[];
  /** Those of them that must be loaded before it: neither types nor dynamic imports. */
  readonly loads: readonly string[];
}

const STATIC =
  /^(?:import|export) (?!type )(?!\{(?:\s*type [^,}]*,?)*\s*\} from)[^;']*'(?<module>\.[^']+)';/gm;

/** Every TypeScript file below these folders, with what it imports from the project. */
export function sourceFiles(folders: readonly string[]): SourceFile[] {
  return folders.flatMap((folder) =>
    readdirSync(path.join(root, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && /\.(tsx?|mjs)$/.test(entry.name))
      .map((entry) => read(path.join(entry.parentPath, entry.name))),
  );
}

function read(absolute: string): SourceFile {
  const text = readFileSync(absolute, 'utf8');
  const relative = ts
    .preProcessFile(text, true, true)
    .importedFiles.map(({ fileName }) => fileName)
    .filter((name) => name.startsWith('.'));
  const resolve = (name: string) => fromRoot(path.resolve(path.dirname(absolute), name));
  return {
    file: fromRoot(absolute),
    text,
    lines: text.split('\n').length - 1,
    imports: relative.map(resolve),
    loads: [...text.matchAll(STATIC)].map(({ groups }) => resolve(groups?.module ?? '')),
  };
}

function fromRoot(absolute: string): string {
  return path.relative(root, absolute).split(path.sep).join('/');
}
