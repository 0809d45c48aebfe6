import { createContext, useContext } from 'react'
import type { Shapes } from '../api/client.ts'

type Status = Shapes['Status']

/** Whether what is shown below could not be read again, so that it shows how things were. */
export const Unread = createContext(false)

const unread: Status = {
  state: 'unknown',
  code: 'control_plane_blind',
  reason: 'It could not be read again, so how it is now is not known.',
  since: null,
}

/** How something is, as far as that is known now. */
export const useCurrent = (status: Status | undefined): Status | undefined => (useContext(Unread) ? unread : status)

export const isUnread = (status: Status | undefined): boolean => status === unread

type Read<Row> = { data?: readonly Row[] | undefined; isError: boolean }

/** Rows with their states; unknown ones if the last read of them failed. */
export const currentRows = <Row extends { status?: Status }>({ data = [], isError }: Read<Row>): readonly Row[] =>
  isError ? data.map((row) => ({ ...row, status: unread })) : data
