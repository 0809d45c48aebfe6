// Verifies events of Gatehouse and prints them. npm install standardwebhooks; WEBHOOK_SECRET=whsec_… node receiver.mjs
import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'
import { Webhook } from 'standardwebhooks'

const webhook = new Webhook(process.env.WEBHOOK_SECRET) // whsec_…

createServer(async (request, response) => {
  const body = await text(request) // as it came: parsing it first changes it
  try {
    webhook.verify(body, request.headers)
  } catch {
    return response.writeHead(401).end()
  }
  const { type, data } = JSON.parse(body)
  console.log(request.headers['webhook-id'], type, data.resource_id)
  response.writeHead(204).end()
}).listen(Number(process.env.PORT ?? 8080))
