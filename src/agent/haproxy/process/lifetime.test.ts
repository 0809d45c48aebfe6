import assert from 'node:assert/strict'
import { test } from 'node:test'
import { poll } from '../../../../test/harness/poll.ts'
import { systemTiming } from '../../../kernel/system_timing.ts'
import { createLifetime } from './lifetime.ts'
import { createTurns } from './turns.ts'

type Parts = Parameters<typeof createLifetime>[0]

/** Around an HAProxy that starts and works as the test says. */
function lifetime({ start = async () => {}, started = async () => {}, fallBack = (): boolean => false } = {}) {
  const [calls, troubles] = [[] as string[], [] as string[]]
  const turns = createTurns()
  let isAlive = true
  let lose = () => {}
  const parts = {
    timing: systemTiming,
    haproxy: {
      isAlive: () => isAlive,
      async start() {
        calls.push('start')
        await start()
        isAlive = true
      },
      onLost(callback: () => void) {
        lose = () => {
          isAlive = false
          callback()
        }
      },
    } as Parts['haproxy'],
    files: { flush: async () => {}, flushIfDue: async () => {} } as Parts['files'],
    certificates: { prepare: async () => {}, load: async () => {}, stop() {} } as Parts['certificates'],
    turns,
    fallBack,
    async started() {
      calls.push('started')
      await started()
    },
    readHealth: async () => {},
    trouble: (error: unknown) => void troubles.push((error as Error).message),
  }
  const created = createLifetime(parts, {})
  created.begin()
  return { ...created, calls, troubles, turns, lose: () => lose() }
}
/** Fails so many times, then works. */
const failing = (times: number, message: string) => async () => {
  if (times-- > 0) throw new Error(message)
}

test('when what follows the start fails, it is repeated, HAProxy is not started again, and changes wait', async () => {
  const { calls, troubles, turns, lose, end } = lifetime({ started: failing(2, 'servers are missing') })
  lose()
  let hasChanged = false
  const change = turns.next(async () => {
    hasChanged = true
  })
  await poll(() => calls.length === 3)
  assert.equal(hasChanged, false)
  await change
  assert.deepEqual(calls, ['start', 'started', 'started', 'started'])
  assert.deepEqual(troubles, ['HAProxy exited; restarting it', 'servers are missing', 'servers are missing'])
  await end(() => {})
})

test('when HAProxy does not start, another configuration is tried at once, and the same one after a wait', async () => {
  let configurations = 1
  const { calls, troubles, turns, lose, end } = lifetime({
    start: failing(2, 'does not start'),
    fallBack: () => configurations-- > 0,
  })
  lose()
  await turns.ended()
  assert.deepEqual(calls, ['start', 'start', 'start', 'started'])
  assert.equal(troubles.length, 3)
  assert.equal(configurations, -1, 'asked after each failure')
  await end(() => {})
})

test('an agent that ends does not go on to bring HAProxy back', async () => {
  const { calls, lose, end } = lifetime({ started: failing(Number.POSITIVE_INFINITY, 'never') })
  lose()
  await poll(() => calls.includes('started'))
  let isEnded = false
  await end(() => {
    isEnded = true
  })
  assert.ok(isEnded)
  const count = calls.length
  lose()
  await new Promise((resolve) => setImmediate(resolve))
  assert.equal(calls.length, count)
})
