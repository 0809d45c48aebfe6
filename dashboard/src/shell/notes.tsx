import { DraftBar } from '../draft/bar.tsx'
import { Unconfirmed } from './unconfirmed.tsx'

/** Above every page: decisions that somebody has to make. */
export function Notes() {
  return (
    <>
      <Unconfirmed />
      <DraftBar />
    </>
  )
}
