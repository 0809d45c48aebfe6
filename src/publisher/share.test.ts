import assert from 'node:assert/strict'
import { test } from 'node:test'
import { random, randomBelow } from '../../test/harness/random.ts'
import { sized } from '../../test/harness/thorough.ts'
import { createShare } from './share.ts'

type Process = { look: ReturnType<typeof createShare>; share: Set<number>; canTake: boolean; isCounting: boolean }

/** The locks of PostgreSQL, and processes that look at them in any order. */
function createWorld(cellCount: number) {
  const processes = new Map<number, Process>()
  let lastPid = 0
  const cells = new Set(Array.from({ length: cellCount }, (_, index) => index + 1))
  const held = () => [...processes.values()].flatMap(({ share }) => [...share])
  const world = {
    start: (canTake = true) =>
      processes.set(++lastPid, { look: createShare(), share: new Set(), canTake, isCounting: true }),
    kill: (pid: number) => processes.delete(pid),
    pids: () => [...processes.keys()],
    get: (pid: number) => processes.get(pid) as Process,
    free: () => [...cells].filter((cell) => !held().includes(cell)),
    sizes: () => [...processes.values()].map(({ share }) => share.size),
    /** Every process looks once. */
    round() {
      for (const pid of world.pids().sort(() => random() - 0.5)) {
        const { look, share, canTake } = world.get(pid)
        const shares = new Map([...processes].map(([each, its]) => [each, its.share]))
        const counting = new Set([...processes].filter(([, { isCounting }]) => isCounting).map(([each]) => each))
        const { take, giveUp } = look({ own: pid, shares, counting, cells })
        if (giveUp !== undefined) assert.ok(share.delete(giveUp), 'it leaves only what it has')
        if (canTake) for (const cell of take) if (!held().includes(cell)) share.add(cell)
      }
    },
    rounds(count: number) {
      for (let round = 0; round < count; round++) world.round()
    },
  }
  return world
}

test('however processes come and go, every cell soon has a publisher, and the cells are spread evenly', () => {
  for (let history = 0; history < sized(20, 500); history++) {
    const world = createWorld(1 + randomBelow(12))
    world.start()
    for (let event = 0; event < 6; event++) {
      const pids = world.pids()
      if (pids.length > 1 && random() < 0.5) world.kill(pids[randomBelow(pids.length)] as number)
      else world.start()
      let free = world.free()
      for (let round = 0; round < 4; round++) {
        world.round()
        free = free.filter((cell) => world.free().includes(cell))
      }
      assert.deepEqual(free, [], 'a cell has no publisher after four looks')
      // One cell at a time, which its next process may take at its second look only. If that has just died, the process
      // that left the cell may keep all of its own for a while.
      world.rounds(60 + 4 * 12)
      const sizes = world.sizes()
      assert.ok(Math.max(...sizes) - Math.min(...sizes) <= 1, `not even: ${sizes}`)
      world.rounds(2)
      assert.deepEqual(world.sizes(), sizes, 'it has settled')
    }
  }
})

test('when one of two processes dies, the other takes all of its cells at the next look', () => {
  const world = createWorld(8)
  world.start()
  world.start()
  world.rounds(30)
  assert.deepEqual(world.sizes(), [4, 4])
  world.kill(1)
  world.round()
  assert.deepEqual(world.free(), [])
})

test('cells that a process should take and cannot are taken by another', () => {
  const world = createWorld(6)
  world.start()
  world.start(false)
  world.rounds(10)
  assert.deepEqual(world.sizes(), [6, 0])
  world.rounds(20)
  assert.deepEqual(world.sizes(), [6, 0], 'and are not left to it again so soon')
  // Both say that they have failed lately.
  for (const pid of world.pids()) world.get(pid).isCounting = false
  world.rounds(2)
  assert.deepEqual(world.free(), [])
})
