import { readFileSync } from 'node:fs';
import { brotliDecompressSync } from 'node:zlib';
import { z } from 'zod';

interface Asset {
  readonly type: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Compressed by the build; absent where that saves nothing. */
  readonly brotli: Uint8Array<ArrayBuffer> | undefined;
}

const TYPES: Readonly<Record<string, string>> = {
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml; charset=utf-8',
  png: 'image/png',
  webmanifest: 'application/manifest+json',
};

const BUILT = z.object({
  names: z.record(z.string(), z.string()),
  served: z.array(z.string()),
  compressed: z.array(z.string()),
  imports: z.record(z.string(), z.array(z.string())),
});

/** Reads the built assets into memory: they are small, and the first page needs all of them. */
export function builtAssets() {
  const sources = import.meta.url.endsWith('.ts');
  const folder = new URL(sources ? '../../dist/web/' : './web/', import.meta.url);
  const {
    names,
    served: built,
    compressed,
    imports,
  } = BUILT.parse(JSON.parse(readFileSync(new URL('assets.json', folder), 'utf8')));
  const files = new Map(
    built.map((name) => {
      const type = TYPES[name.slice(name.lastIndexOf('.') + 1)] ?? 'application/octet-stream';
      const read = (file: string) => new Uint8Array(readFileSync(new URL(file, folder)));
      const brotli = compressed.includes(name) ? read(`${name}.br`) : undefined;
      const bytes =
        brotli === undefined ? read(name) : new Uint8Array(brotliDecompressSync(brotli));
      return [name, { type, bytes, brotli }];
    }),
  );
  return {
    address(name: string): string {
      const served = names[name];
      if (served === undefined) throw new TypeError(`the build has no asset ${name}`);
      return `/assets/${served}`;
    },
    imports: (name: string): readonly string[] =>
      (imports[name] ?? []).map((served) => `/assets/${served}`),
    file: (served: string): Asset | undefined => files.get(served),
  };
}

export type Assets = ReturnType<typeof builtAssets>;
