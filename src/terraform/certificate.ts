// The provider's TLS certificate, for this process only. Terraform reads it from the first line of output and trusts
// nothing else.
import { generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import { der, tags } from '../kernel/crypto/der.ts'

const objectIds = {
  commonName: '550403',
  subjectAltName: '551d11',
  ecdsaWithSha256: '2a8648ce3d040302',
}
const oid = (name: keyof typeof objectIds): Buffer => der(tags.oid, Buffer.from(objectIds[name], 'hex'))
const sequence = (...parts: Buffer[]): Buffer => der(tags.sequence, ...parts)
const utf8 = (text: string): Buffer => der(0x0c, Buffer.from(text))
const utcTime = (moment: Date): Buffer =>
  der(0x17, Buffer.from(`${moment.toISOString().replaceAll(/[-:T]/g, '').slice(2, 14)}Z`))
const hourMs = 60 * 60 * 1000

/** Terraform checks the name, which is always `localhost`. Valid for longer than any apply takes. */
export function ownCertificate(now: number): { certificate: Buffer; certificatePem: string; keyPem: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const algorithm = sequence(oid('ecdsaWithSha256'))
  const name = sequence(der(tags.set, sequence(oid('commonName'), utf8('localhost'))))
  const alternativeNames = sequence(der(0x82, Buffer.from('localhost')))
  const toBeSigned = sequence(
    der(0xa0, der(tags.integer, Buffer.from([2]))),
    // A leading byte below 0x80 keeps it positive.
    der(tags.integer, Buffer.concat([Buffer.from([1]), randomBytes(15)])),
    algorithm,
    name,
    sequence(utcTime(new Date(now - hourMs)), utcTime(new Date(now + 30 * 24 * hourMs))),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(sequence(oid('subjectAltName'), der(tags.octetString, alternativeNames)))),
  )
  const signature = der(tags.bitString, Buffer.from([0]), sign('sha256', toBeSigned, privateKey))
  const certificate = sequence(toBeSigned, algorithm, signature)
  const certificatePem = `-----BEGIN CERTIFICATE-----\n${certificate.toString('base64')}\n-----END CERTIFICATE-----\n`
  return { certificate, certificatePem, keyPem: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString() }
}
