// Alerts by e-mail: through the operator's server, only to recipients that the operator allows, and without anything that a tenant could smuggle into a message.
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createMailer, isMailAddress, mailUrlFault } from '../../src/webhooks/mail.ts'
import { newCertificate } from '../harness/certificates.ts'
import { startControlPlane } from '../harness/control_plane.ts'
import { assertRefused, make } from '../harness/fixtures.ts'
import { poll } from '../harness/poll.ts'
import { testRun } from '../harness/test_run.ts'
import { deliveriesOf } from '../webhooks/destinations.ts'
import { webhookEnv } from '../webhooks/environment.ts'
import { readMail, startMailServer } from './mail_server.ts'

const certificate = newCertificate(['localhost'])
const server = await startMailServer({ after }, certificate)
const trusted = join(testRun.folder, 'mail.pem')
await writeFile(trusted, certificate.certificate_pem)
const plane = await startControlPlane(
  { after },
  {
    env: {
      ...webhookEnv,
      GATEHOUSE_SMTP_URL: `smtp://localhost:${server.port}`,
      NODE_EXTRA_CA_CERTS: trusted,
      GATEHOUSE_SMTP_FROM: 'alerts@gatehouse.test',
      GATEHOUSE_SMTP_USER: 'gatehouse',
      GATEHOUSE_SMTP_PASSWORD: 'p:w',
      GATEHOUSE_SMTP_RECIPIENTS: 'ops.test',
    },
  },
)
const destination = { url: 'mailto:team@ops.test', format: 'email', operations: ['alerts.*'] }

test('a test of a rule arrives as an e-mail, and again after the server has refused it', async () => {
  const admin = await plane.newAccount()
  const { id } = await make(admin, '/webhook_destinations', destination)
  const rule = await make(admin, '/alert_rules', {
    kind: 'backend_down',
    description: 'Grüße\r\n.\r\nRCPT TO:<x@y.test>',
  })
  server.state.answer = '451 later'
  assert.equal((await admin('POST', `/alert_rules/${rule.id}/test`, {})).status, 200)
  const [failed] = await poll(
    () => deliveriesOf(admin, id),
    ([each]) => each?.attempts > 0,
  )
  assert.deepEqual([failed.status, failed.last_error], ['pending', 'the mail server answered 451 later'])
  server.state.answer = '250 taken'
  await poll(() => server.received.length === 1)
  const [mail] = server.received
  assert.deepEqual([mail?.from, mail?.to, mail?.user], ['<alerts@gatehouse.test>', '<team@ops.test>', 'gatehouse:p:w'])
  assert.ok(mail?.isEncrypted)
  const { subject, text, headers } = readMail(mail?.data ?? '')
  assert.equal(subject, 'Test: backend_down')
  assert.match(text, /\/dashboard\/alerts\r\n$/)
  assert.match(text, /Grüße\r\n\.\r\nRCPT TO/)
  assert.match(headers, new RegExp(`^Message-ID: <${failed.id}@gatehouse\\.test>$`, 'm'))
  assert.match(headers, /^Auto-Submitted: auto-generated$/m)
})

test('only alerts go by e-mail, to one address in a domain that the operator allows', async () => {
  const admin = await plane.newAccount()
  const create = (fields: object) => admin('POST', '/webhook_destinations', { ...destination, ...fields })
  for (const url of [
    'mailto:x@elsewhere.test',
    'mailto:a@ops.test,b@ops.test',
    'mailto:a@ops.test>\r\nDATA',
    'mailto:a@ops.test?cc=b@elsewhere.test',
    'https://example.com/x',
  ])
    assertRefused(await create({ url }), 400, 'ERR_INVALID_FIELD', 'url')
  assertRefused(await create({ operations: ['*'] }), 400, 'ERR_INVALID_FIELD', 'operations')
  assertRefused(await create({ format: 'standard' }), 400, 'ERR_INVALID_FIELD', 'url')
  const { uri } = await make(admin, '/webhook_destinations', destination)
  const path = new URL(uri).pathname
  assertRefused(await admin('PATCH', path, { operations: ['users.*'] }), 400, 'ERR_INVALID_FIELD', 'operations')
  assertRefused(await admin('PATCH', path, { format: 'slack' }), 400, 'ERR_INVALID_FIELD', 'url')
  assert.match(mailUrlFault('mailto:a@ops.test', { recipients: ['*'], hasServer: false }) ?? '', /no mail server/)
  assert.ok(!isMailAddress('a b@ops.test') && !isMailAddress('a@ops') && isMailAddress('a.b+c@ops.test'))
})

test('TLS is used where it is offered, and its certificate has to be good; only this machine may do without', async (t) => {
  const secure = await startMailServer(t, newCertificate(['mail.test']))
  const mail = { id: 'ev_1', to: 'a@ops.test', subject: 'x', text: 'y', at: 0 }
  const settings = { host: '127.0.0.1', port: secure.port, isTls: false, user: 'u', password: 'p', from: 'a@b.test' }
  const { error } = await createMailer(settings)(mail, new AbortController().signal)
  assert.match(error ?? '', /^the mail server cannot be used: .*(SELF_SIGNED|UNABLE_TO|CERT)/)
  assert.equal(secure.received.length, 0)
  const plain = await startMailServer(t)
  const long = { ...mail, subject: 'ü'.repeat(300) }
  assert.equal((await createMailer({ ...settings, port: plain.port })(long, new AbortController().signal)).error, null)
  const { headers, subject } = readMail(plain.received[0]?.data ?? '')
  assert.equal(subject, 'ü'.repeat(200))
  assert.ok(
    headers.split('\n').every((line) => line.length <= 90),
    headers,
  )
  const silent = await startMailServer(t)
  silent.state.greets = false
  const stopping = new AbortController()
  const sent = createMailer({ ...settings, port: silent.port })(mail, stopping.signal)
  stopping.abort()
  assert.notEqual((await sent).error, null)
})
