import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isLoopback, parseListen, parseServiceUrl } from '../../src/core/address.ts';
import { jsonErrorOffset } from '../../src/core/config-file.ts';
import { parseDuration } from '../../src/core/quantities.ts';

test('durations are a number and a unit', () => {
  expect(['90s', '15m', '26h', '7d', '0s'].map(parseDuration)).toEqual([
    90_000, 900_000, 93_600_000, 604_800_000, 0,
  ]);
  expect(['', '7', 'd', '1.5h', '-1s', '1w', '1h30m', ' 1h', '1H'].map(parseDuration)).toEqual(
    Array.from({ length: 9 }, () => undefined),
  );
});

test('listen addresses', () => {
  expect(parseListen('127.0.0.1:8025')).toEqual({ host: '127.0.0.1', port: 8025 });
  expect(parseListen('[::1]:0')).toEqual({ host: '::1', port: 0 });
  expect(parseListen(':80')).toEqual({ host: '0.0.0.0', port: 80 });
  for (const wrong of ['8025', '127.0.0.1', '::1:80', '[x]:1', 'a:65536', 'http://a:1', 'a b:1']) {
    expect(parseListen(wrong)).toBeUndefined();
  }
});

test('only this machine is loopback', () => {
  fc.assert(
    fc.property(fc.tuple(fc.nat(255), fc.nat(255), fc.nat(255)), ([a, b, c]) => {
      expect(isLoopback(`127.${a}.${b}.${c}`)).toBe(true);
    }),
  );
  for (const host of ['LOCALHOST', 'a.localhost', '[::1]']) expect(isLoopback(host)).toBe(true);
  for (const host of ['127.0.0.1.example', '128.0.0.1', 'localhost.example', '0.0.0.0', '10.0.0.1'])
    expect(isLoopback(host)).toBe(false);
});

test('addresses with credentials, queries or other protocols are no service addresses', () => {
  expect(parseServiceUrl('https://mail.example/base')?.host).toBe('mail.example');
  for (const wrong of ['https://u:p@x', 'https://x?q', 'https://x#f', 'ftp://x', 'x', '']) {
    expect(parseServiceUrl(wrong)).toBeUndefined();
  }
});

test('the first token that is no JSON is found, and none in JSON', () => {
  const wrong: [string, number][] = [
    ['', 0],
    ['  ', 2],
    ['{,}', 1],
    ['{"a": [1, 2,]}', 12],
    ['{"a": 1,\n "b" 2}', 14],
    ['{"a": tru}', 6],
    ['{"a": "b\n"}', 6],
    ['{} x', 3],
    ['[1', 2],
    ["{'a': 1}", 1],
    ['// note', 0],
  ];
  for (const [text, offset] of wrong) expect([text, jsonErrorOffset(text)]).toEqual([text, offset]);
  fc.assert(
    fc.property(fc.json(), (json) => {
      expect(jsonErrorOffset(` ${json}\n`)).toBeUndefined();
    }),
  );
});

test('cut or altered JSON is refused exactly when the built-in parser refuses it', () => {
  const mutated = fc
    .tuple(fc.json(), fc.nat(), fc.nat(), fc.string({ maxLength: 2 }))
    .map(([json, from, length, put]) => {
      const at = from % (json.length + 1);
      return json.slice(0, at) + put + json.slice(at + (length % 3));
    });
  fc.assert(
    fc.property(mutated, (text) => {
      let valid = true;
      try {
        JSON.parse(text);
      } catch {
        valid = false;
      }
      expect(jsonErrorOffset(text) === undefined).toBe(valid);
    }),
    { numRuns: 1_000 },
  );
});
