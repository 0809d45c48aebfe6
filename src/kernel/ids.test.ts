import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  firstUuidOf,
  type Id,
  type IdPrefix,
  idPrefixes,
  isId,
  newId,
  newUuid,
  toId,
  toUuid,
  type Uuid,
} from './ids.ts'

// From the TypeID specification's list of valid identifiers.
const vectors = {
  '00000000000000000000000000': '00000000-0000-0000-0000-000000000000',
  '00000000000000000000000001': '00000000-0000-0000-0000-000000000001',
  '0000000000000000000000000a': '00000000-0000-0000-0000-00000000000a',
  '0000000000000000000000000g': '00000000-0000-0000-0000-000000000010',
  '00000000000000000000000010': '00000000-0000-0000-0000-000000000020',
  '7zzzzzzzzzzzzzzzzzzzzzzzzz': 'ffffffff-ffff-ffff-ffff-ffffffffffff',
  '0123456789abcdefghjkmnpqrs': '0110c853-1d09-52d8-d73e-1194e95b5f19',
  '01h455vb4pex5vsknk084sn02q': '01890a5d-ac96-774b-bcce-b302099a8057',
}

test('an identifier is written and read as the TypeID specification has it', () => {
  for (const [text, uuid] of Object.entries(vectors)) {
    assert.equal(toId('ak', uuid as Uuid), `ak_${text}`)
    assert.equal(toUuid(`ak_${text}`), uuid)
    assert.ok(isId('ak', `ak_${text}`))
  }
})

test('every UUID survives the round trip to text, under every prefix', () => {
  const prefixes = Object.keys(idPrefixes) as IdPrefix[]
  fc.assert(
    fc.property(fc.uuid(), fc.constantFrom(...prefixes), (uuid, prefix) => {
      const id = toId(prefix, uuid as Uuid)
      assert.ok(isId(prefix, id))
      assert.equal(toUuid(id), uuid)
    }),
  )
})

test('identifiers sort as text in the order of their UUIDs', () => {
  fc.assert(
    fc.property(fc.uuid(), fc.uuid(), (one, other) => {
      assert.equal(one < other, toId('ak', one as Uuid) < toId('ak', other as Uuid))
    }),
  )
})

test('anything but an exact identifier of the kind is rejected', () => {
  const good = newId('ak')
  assert.ok(isId('ak', good))
  for (const bad of [
    ...['', 'ak', 'ak_', good.slice(0, -1), `${good}0`, good.toUpperCase(), good.replace('ak_', 'ipx_'), good.slice(3)],
    ...[`${good}\n`, ` ${good}`, good.replace('_', '-'), `ak_8${good.slice(4)}`, `${good.slice(0, -1)}u`],
    ...[`${good.slice(0, -1)}i`, `${good.slice(0, -1)}l`, `${good.slice(0, -1)}o`, `${good.slice(0, -1)}é`],
  ])
    assert.equal(isId('ak', bad), false, bad)
})

test('each new UUID is a version 7 of RFC 9562, and greater than the one before, also within one millisecond', () => {
  let last: Uuid | '' = ''
  for (let made = 0; made < 20_000; made++) {
    const uuid = newUuid()
    assert.match(uuid, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    assert.ok(uuid > last, `${uuid} after ${last}`)
    last = uuid
  }
})

test('new UUIDs keep increasing when the clock steps back', () => {
  const now = Date.now()
  let last = newUuid(now)
  for (const time of [now - 60_000, now - 59_999, 0, now - 1, now, now + 1, now - 3_600_000]) {
    const uuid = newUuid(time)
    assert.ok(uuid > last, `at ${time}`)
    last = uuid
  }
})

test('new UUIDs keep increasing when a millisecond runs out of numbers', () => {
  const now = Date.now() + 1_000
  let last = newUuid(now)
  for (let made = 0; made < 10_000; made++) {
    const uuid = newUuid(now)
    assert.ok(uuid > last)
    last = uuid
  }
})

test('a UUID begins with its time, and the first of a moment sorts before all others of it', () => {
  const later = Date.now() + 60_000
  const uuid = newUuid(later)
  assert.equal(Number.parseInt(uuid.replace('-', '').slice(0, 12), 16), later)
  assert.ok(firstUuidOf(later) <= uuid && uuid < firstUuidOf(later + 1))
})

test('no two of many identifiers are the same', () => {
  const ids = new Set<Id>(Array.from({ length: 10_000 }, () => newId('op')))
  assert.equal(ids.size, 10_000)
})
