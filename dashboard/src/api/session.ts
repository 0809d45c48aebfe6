import { answerOf, api } from './client.ts'
import { forgetGeneration } from './generation.ts'

/** The token goes to the service once and comes back as a cookie that no script can read. It is kept nowhere here. */
export const signIn = (token: string) => answerOf(api.POST('/dashboard_session', { body: { token } }))

export async function signOut(): Promise<void> {
  forgetGeneration()
  await answerOf(api.DELETE('/dashboard_session'))
}
