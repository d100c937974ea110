import { expect, test } from 'vitest';
import { targetProblem } from '../../../src/sandbox/webhooks.ts';

test.each([
  'https://example.net/hook',
  'https://example.net:8443/hook?a=b',
  'https://93.184.216.34/',
  'https://[2606:2800:220:1:248:1893:25c8:1946]/',
  'https://172.32.0.1/',
  'https://localhost.example.net/',
])('%s is fine everywhere', (url) => {
  expect(targetProblem(url, false)).toBeNull();
  expect(targetProblem(url, true)).toBeNull();
});

test.each([
  'http://example.net/hook',
  'https://localhost/',
  'https://LOCALHOST./',
  'https://a.localhost:8443/',
  'https://127.0.0.1/',
  'https://127.1/',
  'https://2130706433/',
  'https://0.0.0.0/',
  'https://10.1.2.3/',
  'https://172.16.0.1/',
  'https://192.168.1.1/',
  'https://169.254.169.254/latest/meta-data',
  'https://100.64.0.1/',
  'https://[::1]/',
  'https://[::]/',
  'https://[fe80::1]/',
  'https://[fd00::1]/',
  'https://[::ffff:127.0.0.1]/',
])('%s is fine in the sandbox only', (url) => {
  expect(targetProblem(url, false)).toMatch(/^must/);
  expect(targetProblem(url, true)).toBeNull();
});

test('a URL with a name and a password is fine nowhere', () => {
  expect(targetProblem('https://user:secret@example.net/', true)).toMatch(/^must not/);
});
