import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { locateCodec, locateConfig, locateDataDir } from '../../src/core/config-locate.ts';

function environment() {
  const root = mkdtempSync(path.join(tmpdir(), 'mailkeep-locate-'));
  const cwd = path.join(root, 'cwd');
  const xdg = path.join(root, 'xdg');
  mkdirSync(cwd);
  mkdirSync(path.join(xdg, 'mailkeep'), { recursive: true });
  return { root, cwd, xdg, env: { XDG_CONFIG_HOME: xdg } };
}

function config(file: string, dataDir?: string): string {
  writeFileSync(file, JSON.stringify(dataDir === undefined ? {} : { dataDir }));
  return file;
}

test('the order is: option, variable, working folder, user folder', () => {
  const { cwd, xdg, env, root } = environment();
  const user = config(path.join(xdg, 'mailkeep', 'config.json'));
  expect(locateConfig(undefined, { cwd, env })).toBe(user);
  const here = config(path.join(cwd, 'config.json'));
  expect(locateConfig(undefined, { cwd, env })).toBe(here);
  const named = config(path.join(root, 'named.json'));
  expect(locateConfig(undefined, { cwd, env: { ...env, MAILKEEP_CONFIG: named } })).toBe(named);
  expect(locateConfig('../named.json', { cwd, env: { ...env, MAILKEEP_CONFIG: here } })).toBe(
    named,
  );
});

test('a named file that is not there is an error, even where others would serve', () => {
  const { cwd, env } = environment();
  config(path.join(cwd, 'config.json'));
  expect(() => locateConfig('nowhere.json', { cwd, env })).toThrow(
    expect.objectContaining({
      code: 'config-not-found',
      facts: { searched: [path.join(cwd, 'nowhere.json')] },
    }),
  );
});

test('reading needs no config: the option, the dataDir of a config, or ./data', () => {
  const { cwd, env } = environment();
  const none = { data: undefined, config: undefined };
  expect(locateDataDir(none, { cwd, env })).toBe(path.join(cwd, 'data'));
  config(path.join(cwd, 'config.json'), '../elsewhere');
  expect(locateDataDir(none, { cwd, env })).toBe(path.join(path.dirname(cwd), 'elsewhere'));
  expect(locateDataDir({ data: 'mine', config: undefined }, { cwd, env })).toBe(
    path.join(cwd, 'mine'),
  );
  // Whatever else is wrong with the file, its archive can be read.
  writeFileSync(path.join(cwd, 'config.json'), '{"dataDir": "d", "accounts": 7}');
  expect(locateDataDir(none, { cwd, env })).toBe(path.join(cwd, 'd'));
  writeFileSync(path.join(cwd, 'config.json'), '{"dataDir": 7}');
  expect(() => locateDataDir(none, { cwd, env })).toThrow(
    expect.objectContaining({ code: 'config-invalid' }),
  );
});

test('a codec comes from a named file, or from a found one that belongs to the archive', () => {
  const { cwd, env, root } = environment();
  const none = { data: undefined, config: undefined };
  expect(locateCodec(none, { cwd, env })).toBeUndefined();
  const file = path.join(cwd, 'config.json');
  const write = (content: unknown) => writeFileSync(file, JSON.stringify(content));
  write({ dataDir: 'mine', archive: { codec: 'zlib' } });
  expect(locateCodec(none, { cwd, env })).toBe('zlib');
  expect(locateCodec({ ...none, data: path.join(cwd, 'mine') }, { cwd, env })).toBe('zlib');
  const other = { data: path.join(root, 'other'), config: undefined };
  expect(locateCodec(other, { cwd, env })).toBeUndefined();
  // A name is an answer, whichever folder the file is for.
  expect(locateCodec({ ...other, config: file }, { cwd, env })).toBe('zlib');
  expect(locateCodec(other, { cwd, env: { ...env, MAILKEEP_CONFIG: file } })).toBe('zlib');
  write({ dataDir: 'mine', archive: { codec: 'brotli' } });
  for (const options of [none, { ...none, data: 'mine' }]) {
    expect(() => locateCodec(options, { cwd, env })).toThrow(
      expect.objectContaining({ code: 'config-invalid' }),
    );
  }
});

test.each([
  ['JSON with comments', '// made by hand\n{"archive": {"codec": "zlib"}}'],
  ['another kind of dataDir', '{"dataDir": 7, "archive": {"codec": "zlib"}}'],
  ['another meaning of archive', '{"dataDir": "theirs", "archive": {"codec": 9}}'],
  ['a list', '[]'],
])("--data ignores another program's config.json that nobody named: %s", (_, content) => {
  const { cwd, env } = environment();
  const file = path.join(cwd, 'config.json');
  writeFileSync(file, content);
  expect(locateCodec({ data: 'mine', config: undefined }, { cwd, env })).toBeUndefined();
});

test('a config file that cannot be read is an error where it is named, or where no --data is', () => {
  const { cwd, env } = environment();
  const file = path.join(cwd, 'config.json');
  writeFileSync(file, '// not JSON');
  for (const options of [
    { data: undefined, config: undefined },
    { data: 'mine', config: file },
  ]) {
    expect(() => locateCodec(options, { cwd, env })).toThrow(
      expect.objectContaining({ code: 'config-not-json' }),
    );
  }
});
