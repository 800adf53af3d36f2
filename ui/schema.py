"""The tables of the rooms' database."""

from __future__ import annotations

from typing import Final

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS rooms(
  id TEXT PRIMARY KEY, scenario TEXT NOT NULL, mode TEXT NOT NULL, created REAL NOT NULL,
  touched REAL NOT NULL, talk REAL, strategies_off TEXT NOT NULL DEFAULT '[]',
  paused INTEGER NOT NULL DEFAULT 0, generation INTEGER NOT NULL DEFAULT 0,
  script TEXT NOT NULL DEFAULT '', position INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS people(
  room TEXT NOT NULL REFERENCES rooms(id) ON DELETE CASCADE, id TEXT NOT NULL,
  name TEXT NOT NULL, role TEXT NOT NULL, age TEXT NOT NULL, colour INTEGER NOT NULL,
  consented REAL, gone REAL, PRIMARY KEY(room, id), UNIQUE(room, name));
CREATE TABLE IF NOT EXISTS lines(
  room TEXT NOT NULL REFERENCES rooms(id) ON DELETE CASCADE, seq INTEGER NOT NULL,
  key TEXT NOT NULL, speaker TEXT NOT NULL, text TEXT NOT NULL, addressees TEXT NOT NULL,
  given INTEGER NOT NULL, visible_to TEXT, at REAL NOT NULL, erased REAL,
  PRIMARY KEY(room, seq), UNIQUE(room, key));
CREATE TABLE IF NOT EXISTS decisions(
  id INTEGER PRIMARY KEY, room TEXT NOT NULL REFERENCES rooms(id) ON DELETE CASCADE,
  viewer TEXT, seq INTEGER NOT NULL, reply INTEGER, record TEXT NOT NULL, at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS decisions_by_room ON decisions(room, id);
CREATE TABLE IF NOT EXISTS votes(
  decision INTEGER NOT NULL REFERENCES decisions(id) ON DELETE CASCADE, person TEXT NOT NULL,
  vote INTEGER NOT NULL, at REAL NOT NULL, PRIMARY KEY(decision, person));
CREATE TABLE IF NOT EXISTS corrections(
  id INTEGER PRIMARY KEY, room TEXT NOT NULL REFERENCES rooms(id) ON DELETE CASCADE,
  kind TEXT NOT NULL, person TEXT NOT NULL, other TEXT NOT NULL, evidence TEXT NOT NULL,
  at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS care(
  room TEXT PRIMARY KEY REFERENCES rooms(id) ON DELETE CASCADE, state TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS releases(
  id INTEGER PRIMARY KEY, room TEXT NOT NULL REFERENCES rooms(id) ON DELETE CASCADE,
  person TEXT NOT NULL, whisper INTEGER NOT NULL, shown INTEGER NOT NULL, granted REAL NOT NULL,
  revoked REAL);
CREATE TRIGGER IF NOT EXISTS lines_append_only BEFORE UPDATE ON lines
  WHEN NEW.text <> '' OR NEW.erased IS NULL OR NEW.seq <> OLD.seq OR NEW.speaker <> OLD.speaker
  BEGIN SELECT RAISE(ABORT, 'the transcript only grows; a line can be erased, never changed'); END;
"""
