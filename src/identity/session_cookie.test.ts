import assert from 'node:assert/strict'
import { test } from 'node:test'
import { endedSessionCookie, sessionCookie, sessionSecretIn, signInCookie, signInSecretIn } from './session_cookie.ts'

const [https, http] = ['https://gatehouse.example', 'http://127.0.0.1:8080']

test('under https the cookie is Secure and bound to the host, and hidden from scripts and other sites', () => {
  assert.equal(
    sessionCookie(https, 'x', 60),
    '__Host-gatehouse_session=x; Max-Age=60; Path=/; HttpOnly; SameSite=Strict; Secure',
  )
  assert.equal(sessionCookie(http, 'x', 60), 'gatehouse_session=x; Max-Age=60; Path=/; HttpOnly; SameSite=Strict')
  assert.match(endedSessionCookie(https), /^__Host-gatehouse_session=; Max-Age=0; .*Secure$/)
})

test('the secret is found among other cookies, and not at all when there are two', () => {
  assert.equal(sessionSecretIn(https, ['a=b; __Host-gatehouse_session=x;c=d']), 'x')
  for (const headers of [
    undefined,
    [],
    ['a=b'],
    // Without TLS anybody on the way could have set it.
    ['gatehouse_session=x'],
    ['x__Host-gatehouse_session=x'],
    ['__Host-gatehouse_session=x; __Host-gatehouse_session=y'],
    ['__Host-gatehouse_session=x', '__Host-gatehouse_session=x'],
  ])
    assert.equal(sessionSecretIn(https, headers), undefined, JSON.stringify(headers))
})

test('the cookie of a sign-in comes back with the redirect of the provider, and is not taken for a session', () => {
  assert.equal(
    signInCookie(https, 'x', 600),
    '__Host-gatehouse_sign_in=x; Max-Age=600; Path=/; HttpOnly; SameSite=Lax; Secure',
  )
  const headers = ['__Host-gatehouse_sign_in=x; __Host-gatehouse_session=y']
  assert.deepEqual([signInSecretIn(https, headers), sessionSecretIn(https, headers)], ['x', 'y'])
})
