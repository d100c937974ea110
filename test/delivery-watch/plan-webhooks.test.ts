import { expect, test } from 'vitest';
import { planWebhooks } from '../../src/delivery-watch/plan-webhooks.ts';

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
