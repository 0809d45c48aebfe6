import { DraftBar } from '../draft/bar.tsx'
import { Unconfirmed } from './unconfirmed.tsx'

/** Above every page: what waits for someone to decide. */
export function Notes() {
  return (
    <>
      <Unconfirmed />
      <DraftBar />
    </>
  )
}
