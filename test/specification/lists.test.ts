import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { type Client, publicUrl } from '../harness/client.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })
const listUri = `${publicUrl}/api_keys`

/** An account with this many keys, and their ids from the newest to the oldest. */
async function accountWithKeys(count: number) {
  const admin = await plane.newAccount()
  const { keys } = (await admin('GET', '/api_keys')).body
  const ids: string[] = [keys[0].id]
  while (ids.length < count) ids.unshift((await admin('POST', '/api_keys', {})).body.id)
  return { admin, ids }
}

const idsOf = (page: { keys: { id: string }[] }) => page.keys.map(({ id }) => id)

async function walk(client: Client, first: string): Promise<string[][]> {
  const pages: string[][] = []
  for (let next: string | null = first; next !== null; ) {
    const { status, body } = await client('GET', next)
    assert.equal(status, 200)
    pages.push(idsOf(body))
    next = body.next_page_uri
  }
  return pages
}

test('§2.6 API key list: keys is a list of API keys, newest first', async () => {
  const { admin, ids } = await accountWithKeys(5)
  const { body } = await admin('GET', '/api_keys')
  assert.deepEqual(idsOf(body), ids)
  // When a key was last used is written a moment after the use, so it may come between the two reads.
  const stable = ({ last_used_at: _, last_used_ip: __, ...fields }: Record<string, unknown>) => fields
  for (const entry of body.keys) assert.deepEqual(stable(entry), stable((await admin('GET', entry.uri)).body))
})

test('§2.6 API key list: uri is the URI of the list resource, without a query', async () => {
  const { admin, ids } = await accountWithKeys(3)
  for (const query of ['', '?limit=1', `?limit=1&before_id=${ids[0]}`])
    assert.equal((await admin('GET', `/api_keys${query}`)).body.uri, listUri)
})

test('§2.6 API key list: next_page_uri is the URI of the next page, and keeps the limit', async () => {
  const { admin, ids } = await accountWithKeys(5)
  const { body: first } = await admin('GET', '/api_keys?limit=2')
  assert.deepEqual(idsOf(first), ids.slice(0, 2))
  assert.equal(first.next_page_uri, `${listUri}?limit=2&before_id=${ids[1]}`)
  const { body: second } = await admin('GET', first.next_page_uri)
  assert.deepEqual(idsOf(second), ids.slice(2, 4))
  assert.equal(new URL(second.next_page_uri).searchParams.get('limit'), '2')
})

test('§2.6 API key list: next_page_uri is null when there is no next page', async () => {
  const { admin, ids } = await accountWithKeys(3)
  for (const path of ['/api_keys', '/api_keys?limit=3', '/api_keys?limit=100', `/api_keys?limit=2&before_id=${ids[0]}`])
    assert.equal((await admin('GET', path)).body.next_page_uri, null, path)
})

test('§2.6 API key list: no page before the last is empty, even when the limit divides the number of keys', async () => {
  const { admin, ids } = await accountWithKeys(6)
  for (const [limit, sizes] of [
    [1, [1, 1, 1, 1, 1, 1]],
    [2, [2, 2, 2]],
    [3, [3, 3]],
    [4, [4, 2]],
    [6, [6]],
  ] as const) {
    const pages = await walk(admin, `/api_keys?limit=${limit}`)
    assert.deepEqual(
      pages.map(({ length }) => length),
      sizes,
    )
    assert.deepEqual(pages.flat(), ids)
  }
})

test('§2.6 API key list: after the oldest key there is an empty last page', async () => {
  const { admin, ids } = await accountWithKeys(2)
  assert.deepEqual((await admin('GET', `/api_keys?before_id=${ids[1]}`)).body, {
    keys: [],
    uri: listUri,
    next_page_uri: null,
  })
})

test('§2.6 API key list: a page has at most 100 keys, and 100 when no limit is given', async () => {
  const { admin, ids } = await accountWithKeys(101)
  for (const path of ['/api_keys', '/api_keys?limit=100']) {
    const { body } = await admin('GET', path)
    assert.deepEqual(idsOf(body), ids.slice(0, 100))
    assert.deepEqual(idsOf((await admin('GET', body.next_page_uri)).body), ids.slice(100))
  }
})

test('§2.6 API key list: limit is a whole number from 1 to 100', async () => {
  const { admin } = await accountWithKeys(2)
  assert.equal((await admin('GET', '/api_keys?limit=1')).body.keys.length, 1)
  for (const limit of [
    '0',
    '101',
    '-1',
    '1.5',
    '1e1',
    '0x1',
    '01',
    '',
    '%20',
    '5%20',
    '+5',
    'all',
    'null',
    '9'.repeat(30),
  ]) {
    const { status, body } = await admin('GET', `/api_keys?limit=${limit}`)
    assert.equal(status, 400, limit)
    assert.equal(body.error_code, 'ERR_INVALID_FIELD')
    assert.equal(body.details.field, 'limit')
  }
  assert.equal((await admin('GET', '/api_keys?limit=1&limit=1')).body.details.field, 'limit')
})

test('§2.6 API key list: before_id need not exist any more', async () => {
  const { admin, ids } = await accountWithKeys(4)
  await admin('DELETE', `/api_keys/${ids[1]}`)
  assert.deepEqual(idsOf((await admin('GET', `/api_keys?before_id=${ids[1]}`)).body), ids.slice(2))
})

test('§2.6 API key list: before_id is the id of an API key, and of nothing else', async () => {
  const { admin } = await accountWithKeys(1)
  for (const id of [admin.adminId, '', 'x', 'ak_', 'ak_80000000000000000000000000', '%00']) {
    const { status, body } = await admin('GET', `/api_keys?before_id=${id}`)
    assert.equal(status, 400, id)
    assert.equal(body.details.field, 'before_id')
  }
})

test("§2.6 API key list: another account's key as before_id shows nothing of that account", async () => {
  const { admin, ids } = await accountWithKeys(2)
  const { ids: foreign } = await accountWithKeys(2)
  assert.deepEqual(idsOf((await admin('GET', `/api_keys?before_id=${foreign[0]}`)).body), ids)
})

test('§2.6 API key list: an unknown query parameter is refused and named, also where no parameter is known', async () => {
  const { admin, ids } = await accountWithKeys(1)
  for (const [method, path, body] of [
    ['GET', '/api_keys'],
    ['GET', `/api_keys/${ids[0]}`],
    ['DELETE', `/api_keys/${ids[0]}`],
    ['PATCH', `/api_keys/${ids[0]}`, {}],
    ['POST', '/api_keys', {}],
  ] as const) {
    for (const name of ['page', 'Limit', 'limit[]', '__proto__', 'constructor']) {
      const answer = await admin(method, `${path}?${encodeURIComponent(name)}=1`, body)
      assert.equal(answer.status, 400, `${method} ${path} ${name}`)
      assert.equal(answer.body.error_code, 'ERR_INVALID_FIELD')
      assert.equal(answer.body.details.field, name)
    }
  }
  assert.equal((await admin('GET', '/api_keys')).body.keys.length, 1)
})

test('§2.6 API key list: a walk under concurrent writes shows no key twice and misses none that was there when it began', async () => {
  const { admin, ids } = await accountWithKeys(20)
  let walking = true
  const writer = (async () => {
    while (walking) {
      const { body } = await admin('POST', '/api_keys', {})
      await admin('DELETE', body.uri)
      await admin('POST', '/api_keys', {})
    }
  })()
  for (let round = 0; round < 5; round++) {
    const seen = (await walk(admin, '/api_keys?limit=3')).flat()
    assert.equal(new Set(seen).size, seen.length)
    assert.deepEqual(
      seen.filter((id) => ids.includes(id)),
      ids,
    )
  }
  walking = false
  await writer
})
