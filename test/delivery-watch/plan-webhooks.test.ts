import { expect, test } from 'vitest';
import { judgeWebhooks, planWebhooks } from '../../src/daemon/delivery-watch.ts';

const URL_OF_OURS = 'https://hooks.example.org/mail';
const box = (name: string) => ({ resourceId: `AC-${name}`, address: `${name}@example.org` });
const hook = (id: string, name: string, status = 'active', url = URL_OF_OURS) => ({
  id,
  status,
  url,
  // The platform surface may spell it otherwise.
  mailbox: `${name.toUpperCase()}@Example.org`,
});
const own = (id: string, name: string, url = URL_OF_OURS) => ({ id, mailboxId: `AC-${name}`, url });

test('each mailbox gets one webhook of ours that delivers, and others are left alone', () => {
  const boxes = ['none', 'fine', 'paused', 'lost', 'foreign', 'moved', 'two'].map(box);
  const { steps, others } = planWebhooks(
    boxes,
    [
      own('w1', 'fine'),
      own('w2', 'paused'),
      own('gone', 'lost'),
      own('w4', 'moved', 'https://old.example.org/'),
      own('w5', 'two'),
      own('w6', 'two'),
      own('stale', 'two'),
    ],
    [
      hook('w1', 'fine'),
      hook('w2', 'paused', 'disabled'),
      hook('w3', 'foreign'),
      hook('w4', 'moved', 'active', 'https://old.example.org/'),
      hook('w5', 'two', 'paused'),
      hook('w6', 'two'),
      hook('w9', 'elsewhere'),
    ],
    URL_OF_OURS,
  );
  const told = steps.map((step) =>
    [
      step.mailbox.resourceId,
      step.act,
      step.act === 'create' ? '' : step.hook.id,
      ...step.missing,
    ].join(' '),
  );
  expect(told).toEqual([
    'AC-none create ',
    'AC-fine keep w1',
    'AC-paused resume w2',
    'AC-lost create  gone',
    'AC-foreign create ',
    'AC-moved create ',
    'AC-two keep w6 stale',
  ]);
  expect(others.map(({ id }) => id)).toEqual(['w3', 'w4', 'w5']);
});

test.each([
  ['https://hooks.example.org', 'https://hooks.example.org/', true],
  ['https://hooks.example.org/mail', 'https://HOOKS.Example.org/mail', true],
  ['https://hooks.example.org/mail', 'HTTPS://hooks.example.org:443/mail', true],
  ['https://hooks.example.org/mail', 'https://hooks.example.org/mail/', false],
  ['https://hooks.example.org/mail', 'https://hooks.example.org/Mail', false],
  ['https://hooks.example.org/mail', 'https://hooks.example.org:8443/mail', false],
  ['https://hooks.example.org/mail', 'http://hooks.example.org/mail', false],
  ['https://hooks.example.org/mail?a', 'https://hooks.example.org/mail', false],
  ['no address', 'no address', true],
  ['no address', 'NO ADDRESS', false],
])('a webhook at %s delivers to %s: %s', (registered, wanted, same) => {
  const plan = () =>
    planWebhooks(
      [box('one')],
      [own('w1', 'one', registered), own('gone', 'one', registered)],
      [hook('w1', 'one', 'active', registered)],
      wanted,
    );
  expect(plan().steps).toMatchObject([
    same ? { act: 'keep', hook: { url: registered }, missing: ['gone'] } : { act: 'create' },
  ]);
  const entry = { at: 0, mailbox: 'a@b.example', success: false, durationMs: 5 };
  const [finding] = judgeWebhooks(
    [{ id: 'w1', account: 'main', mailboxId: 'AC1', mailbox: 'a@b.example', url: registered }],
    [{ id: 'w1', status: 'active', url: registered }],
    [{ ...entry, url: wanted, attempts: 6, mostAttempts: 6 }],
    1,
  );
  expect(finding?.state).toBe(same ? 'failing' : 'well');
});
