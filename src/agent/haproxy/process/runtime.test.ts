import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Command } from '../maps/claims.ts'
import { changeLines } from './runtime.ts'

const settings = { folder: '/x' } as Parameters<typeof changeLines>[0]

test('changes are sent in order, in short lines, with separators inside a value escaped', () => {
  const commands = Array.from({ length: 1_000 }, (_, index): Command => {
    const key = `key${index}`
    return index % 3 === 0
      ? { kind: 'del', map: 'route', key }
      : { kind: index % 3 === 1 ? 'add' : 'set', map: 'route', key, value: `a;b c\\d${'.'.repeat(index)}` }
  })
  const lines = [...changeLines(settings, commands)]
  assert.ok(lines.length > 40, `${lines.length} lines`)
  assert.ok(lines.every((line) => line.length <= 8_000))
  const told = lines.flatMap((line) => line.split(/(?<!\\);/))
  assert.deepEqual(
    told,
    commands.map((command) =>
      command.kind === 'del'
        ? `del map /x/maps/route.map ${command.key}`
        : `${command.kind} map /x/maps/route.map ${command.key} ${command.value.replaceAll(/[\\; ]/g, '\\$&')}`,
    ),
  )
  // A value that is longer than a line has one to itself.
  const long: Command = { kind: 'add', map: 'headers', key: 'k', value: 'x'.repeat(20_000) }
  assert.deepEqual(
    [...changeLines(settings, [...commands.slice(0, 1), long])].map((line) => line.length > 8_000),
    [false, true],
  )
  assert.deepEqual([...changeLines(settings, [])], [])
})

test('look-ups come after all changes, on the same line if they fit', () => {
  const change: Command = { kind: 'del', map: 'route', key: 'a' }
  const place = { map: 'host', key: 'b c' } as const
  const lookUp = 'get map /x/maps/host.map b\\ c'
  assert.deepEqual([...changeLines(settings, [change], [place])], [`del map /x/maps/route.map a;${lookUp}`])
  assert.deepEqual([...changeLines(settings, [], [place])], [lookUp])
})
