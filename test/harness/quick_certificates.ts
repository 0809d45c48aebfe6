import { generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import type { NewCertificate } from './certificates.ts'

const dayMs = 24 * 60 * 60 * 1_000

/**
 * A self-signed certificate with a P-256 key, without a process for each: ten thousand by openssl take a quarter of an
 * hour. Only what these need of DER.
 */
export function quickCertificate(names: readonly string[], days = 30): NewCertificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const algorithm = sequence(ecdsaWithSha256)
  const name = sequence(tagged(0x31, sequence(commonName, tagged(0x0c, Buffer.from((names[0] ?? '').slice(0, 64))))))
  const alternatives = sequence(...names.map((each) => tagged(0x82, Buffer.from(each))))
  const extension = sequence(subjectAlternativeNames, tagged(0x04, alternatives))
  const body = sequence(
    tagged(0xa0, tagged(0x02, Buffer.from([2]))),
    tagged(0x02, Buffer.concat([Buffer.from([1]), randomBytes(15)])),
    algorithm,
    name,
    sequence(time(Date.now() - dayMs), time(Date.now() + days * dayMs)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    tagged(0xa3, sequence(extension)),
  )
  const signature = Buffer.concat([Buffer.from([0]), sign('sha256', body, privateKey)])
  const certificate = sequence(body, algorithm, tagged(0x03, signature))
  return {
    certificate_pem: `-----BEGIN CERTIFICATE-----\n${lines(certificate)}\n-----END CERTIFICATE-----\n`,
    private_key_pem: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
  }
}

function tagged(tag: number, content: Buffer): Buffer {
  const { length } = content
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...size]), content])
}
const sequence = (...parts: Buffer[]): Buffer => tagged(0x30, Buffer.concat(parts))
const time = (at: number): Buffer =>
  tagged(0x18, Buffer.from(`${new Date(at).toISOString().replaceAll(/[-:T]|\..*/g, '')}Z`))
const lines = (der: Buffer): string => der.toString('base64').replaceAll(/(.{64})(?=.)/g, '$1\n')

const ecdsaWithSha256 = Buffer.from('06082a8648ce3d040302', 'hex')
const commonName = Buffer.from('0603550403', 'hex')
const subjectAlternativeNames = Buffer.from('0603551d11', 'hex')
